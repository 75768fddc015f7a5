exechost_fuzz(image USES native_images)
exechost_fuzz(layer USES native_images)
