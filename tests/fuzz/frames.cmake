exechost_fuzz(frames USES docker
    DECODES host/docker/process_frames.c)
