exechost_fuzz(frames USES docker)
