"""What every team's package has, in the hands of the platform team."""

load("//rules:defs.bzl", "mlf_baseline_test", "mlf_firmware")

BOARDS = ["cortex-m0", "cortex-m3", "cortex-m4", "rv32imac"]

def team(name, models, tests, flash_bytes, ram_bytes):
    """An image with all models of a team for each board, their sizes, and the tests of the models.

    Args:
      name: the team; its manifest's repository is `team_<name>`. Images are `<board>_image`.
      models: MODELS of that repository.
      tests: TESTS of that repository.
      flash_bytes: most flash of an image, which every build of it checks.
      ram_bytes: most static RAM of an image.
    """
    for board in BOARDS:
        mlf_firmware(
            name = board + "_image",
            srcs = ["main.c"],
            copts = ["-std=c99"],
            flash_bytes = flash_bytes,
            platform = "//rules/platforms:" + board,
            ram_bytes = ram_bytes,
            deps = [
                "@team_%s//%s:%s" % (name, model, board)
                for model, libraries in models.items()
                if board in libraries
            ],
        )

    # Of other compilers code is a little larger or smaller.
    mlf_baseline_test(
        name = "sizes_test",
        size = "small",
        baseline = "sizes.json",
        programs = [board + "_image" for board in BOARDS],
        tolerance = "5",
        visibility = ["//visibility:public"],
    )

    # Every model against its vectors. By hand in this repository, whose own tests have the machine for themselves.
    native.test_suite(
        name = "host_tests",
        tags = ["manual"],
        tests = [test for test in tests if test.endswith(":host_tests")],
        visibility = ["//visibility:public"],
    )
    native.test_suite(
        name = "board_tests",
        tags = ["manual"],
        tests = [test for test in tests if not test.endswith(":host_tests")],
        visibility = ["//visibility:public"],
    )
