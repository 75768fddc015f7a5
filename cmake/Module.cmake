# exechost_module(NAME SOURCES a.c … [USES base api …] [LINK PkgConfig::X …])
# One static library per module. Headers are reached as "module/header.h" from the root; what a
# module may call is exactly what it names in USES, so an upward call fails at link time.
function(exechost_module NAME)
    cmake_parse_arguments(ARG "" "" "SOURCES;USES;LINK" ${ARGN})
    add_library(exechost_${NAME} STATIC ${ARG_SOURCES})
    target_include_directories(exechost_${NAME} PUBLIC ${PROJECT_SOURCE_DIR})
    target_link_libraries(exechost_${NAME} PRIVATE exechost_options)
    foreach(module ${ARG_USES})
        target_link_libraries(exechost_${NAME} PUBLIC exechost_${module})
    endforeach()
    target_link_libraries(exechost_${NAME} PUBLIC ${ARG_LINK})
endfunction()
