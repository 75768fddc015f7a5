# The process runner's part of this module: its sources, and the guest as a file inside one of them.
set(DOCKER_PROCESS_SOURCES
    process.c process_exec.c process_frames.c process_guest.c process_install.c process_load.c
    process_result.c process_running.c
    guest_binary.c)

function(docker_process_setup TARGET)
    add_dependencies(${TARGET} exechost_guest)
    set_source_files_properties(guest_binary.c PROPERTIES
        COMPILE_DEFINITIONS "EXECHOST_GUEST_FILE=\"$<TARGET_FILE:exechost_guest>\""
        OBJECT_DEPENDS "${PROJECT_BINARY_DIR}/guest/guest")
endfunction()
