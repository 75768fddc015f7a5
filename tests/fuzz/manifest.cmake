exechost_fuzz(manifest USES workspace)
