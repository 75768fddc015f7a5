# What every target is compiled with. Targets get it through the interface target exechost_options.
set(CMAKE_C_STANDARD 17)
set(CMAKE_C_STANDARD_REQUIRED ON)
set(CMAKE_C_EXTENSIONS ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)

include(cmake/Hardening.cmake)

add_library(exechost_options INTERFACE)
target_compile_definitions(exechost_options INTERFACE _GNU_SOURCE EXECHOST_VERSION="${PROJECT_VERSION}")
target_compile_options(exechost_options INTERFACE
    -Wall -Wextra -Wshadow -Wvla -Wformat=2 -Wstrict-prototypes -Wmissing-prototypes -Wundef
    -Wwrite-strings -Wpointer-arith -Wunused-result -Werror
    -fno-strict-aliasing -fno-common)

if(EXECHOST_FAULTS)
    target_compile_definitions(exechost_options INTERFACE EXECHOST_FAULTS=1)
endif()

if(EXECHOST_SANITIZE STREQUAL "address")
    target_compile_options(exechost_options INTERFACE
        -fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer)
    target_link_options(exechost_options INTERFACE -fsanitize=address,undefined)
elseif(EXECHOST_SANITIZE STREQUAL "thread")
    target_compile_options(exechost_options INTERFACE -fsanitize=thread -fno-omit-frame-pointer)
    target_link_options(exechost_options INTERFACE -fsanitize=thread)
else()
    target_link_libraries(exechost_options INTERFACE exechost_hardening)
endif()

if(EXECHOST_COVERAGE)
    target_compile_options(exechost_options INTERFACE --coverage)
    target_link_options(exechost_options INTERFACE --coverage)
endif()

if(EXECHOST_FUZZ)
    target_compile_options(exechost_options INTERFACE
        -fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer)
    target_link_options(exechost_options INTERFACE -fsanitize=address,undefined)
endif()
