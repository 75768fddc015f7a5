# The host itself. The shim goes into it as a file, as the guest does.
exechost_module(native
    SOURCES
        native.c machine.c record.c spawn.c provision.c remove.c recover.c exec.c guest.c program.c workspace.c
        plan_file.c foreign.c link.c link_command.c link_connect.c wire.c binaries.c
    USES base host host_content workspace sandbox native_images native_needs guest_binary
    LINK PkgConfig::jansson Threads::Threads)
add_dependencies(exechost_native exechost_shim)
set_source_files_properties(binaries.c PROPERTIES
    COMPILE_DEFINITIONS "EXECHOST_SHIM_FILE=\"$<TARGET_FILE:exechost_shim>\""
    OBJECT_DEPENDS "${PROJECT_BINARY_DIR}/host/native/shim/shim")
