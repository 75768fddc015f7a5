exechost_fuzz(files USES docker host
    DECODES host/files.c host/docker/process_mux.c
    WITHOUT send_content write_at)
