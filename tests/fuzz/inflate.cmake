exechost_fuzz(inflate USES workspace)
