target_compile_options(main PRIVATE -mcpu=cortex-m3 -mthumb -Os -ffunction-sections)
target_link_options(main PRIVATE -mcpu=cortex-m3 -mthumb -nostartfiles -Wl,--gc-sections
  -T${CMAKE_CURRENT_SOURCE_DIR}/src/board.ld)
