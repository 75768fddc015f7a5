# What makes a fault of ours harder to use, in every program that is shipped: tests/hardening asks the
# built files for it. Sanitizers have checks of their own and do without.
include(CheckCCompilerFlag)
include(CheckPIESupported)
check_pie_supported(LANGUAGES C)

add_library(exechost_hardening INTERFACE)
target_compile_options(exechost_hardening INTERFACE -fstack-protector-strong -fstack-clash-protection)
target_link_options(exechost_hardening INTERFACE -Wl,-z,relro,-z,now,-z,noexecstack,-z,separate-code)
# Fortified functions need the optimiser.
if(CMAKE_BUILD_TYPE STREQUAL "Release")
    target_compile_options(exechost_hardening INTERFACE -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=3)
endif()
# Landing pads and a shadow stack: each processor has a name of its own for it.
foreach(flag -fcf-protection=full -mbranch-protection=standard)
    string(MAKE_C_IDENTIFIER "have${flag}" have)
    # Clang only warns of one that is another processor's.
    set(CMAKE_REQUIRED_FLAGS -Werror)
    check_c_compiler_flag(${flag} ${have})
    unset(CMAKE_REQUIRED_FLAGS)
    if(${have})
        target_compile_options(exechost_hardening INTERFACE ${flag})
    endif()
endforeach()

# exechost_small_program(TARGET NAME): the small programs that run beside the service or inside
# executions. Neither fault points nor coverage have a place in there, so they take nothing of
# exechost_options.
function(exechost_small_program TARGET NAME)
    target_include_directories(${TARGET} PRIVATE ${PROJECT_SOURCE_DIR})
    target_compile_definitions(${TARGET} PRIVATE _GNU_SOURCE)
    target_compile_options(${TARGET} PRIVATE
        -Wall -Wextra -Wshadow -Wvla -Wformat=2 -Wstrict-prototypes -Wmissing-prototypes -Wundef
        -Wwrite-strings -Wpointer-arith -Wunused-result -Werror
        -fno-strict-aliasing -fno-common
        -Os -g0 -fPIE -ffunction-sections -fdata-sections)
    target_link_libraries(${TARGET} PRIVATE exechost_hardening)
    set_target_properties(${TARGET} PROPERTIES
        OUTPUT_NAME ${NAME} INTERPROCEDURAL_OPTIMIZATION OFF)
endfunction()

# exechost_static_program(TARGET NAME): such a one in a single file, loaded at an address nobody
# knows before.
function(exechost_static_program TARGET NAME)
    exechost_small_program(${TARGET} ${NAME})
    target_link_options(${TARGET} PRIVATE -static-pie -s -Wl,--gc-sections,--build-id=none)
    # Unset, because from ON and OFF CMake makes -pie and -no-pie, and either undoes -static-pie.
    set_property(TARGET ${TARGET} PROPERTY POSITION_INDEPENDENT_CODE)
endfunction()
