exechost_fuzz(tar USES workspace
    DECODES workspace/tar.c)
