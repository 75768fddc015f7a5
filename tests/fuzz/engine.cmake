exechost_fuzz(engine USES docker)
