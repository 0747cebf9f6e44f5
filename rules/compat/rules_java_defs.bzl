"""@rules_java//java:defs.bzl for a Bazel whose Java rules are built in (4 to 7).

We build no Java. Resolving any C++ toolchain makes Bazel look at @bazel_tools//tools/jdk as well,
which loads these symbols; without them it would download rules_java.
"""

java_binary = native.java_binary
java_import = native.java_import
java_library = native.java_library
java_lite_proto_library = native.java_lite_proto_library
java_package_configuration = native.java_package_configuration
java_plugin = native.java_plugin
java_proto_library = native.java_proto_library
java_runtime = native.java_runtime
java_test = native.java_test
java_toolchain = native.java_toolchain
