exechost_fuzz(bundle USES workspace)
