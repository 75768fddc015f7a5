# The process runner's part of this module.
set(DOCKER_PROCESS_SOURCES
    process.c process_exec.c process_frames.c process_guest.c process_install.c process_load.c
    process_mux.c process_result.c process_running.c)
