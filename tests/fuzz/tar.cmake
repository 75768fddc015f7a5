exechost_fuzz(tar USES workspace)
