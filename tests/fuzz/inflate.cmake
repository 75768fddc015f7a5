exechost_fuzz(inflate USES workspace
    DECODES workspace/inflate.c)
