exechost_fuzz(engine USES docker
    DECODES host/docker/engine_head.c host/docker/engine_lines.c)
