exechost_fuzz(bundle USES workspace
    DECODES workspace/bundle.c)
