exechost_fuzz(shim USES native
    SOURCES host/native/shim/plan.c
    DECODES host/native/shim/plan.c host/native/plan_file.c host/native/wire.c host/native/link_command.c
    WITHOUT native_memory_file native_plan_file add_strings count_of)
