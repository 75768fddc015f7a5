exechost_fuzz(image USES native_images
    DECODES host/native/image_config.c host/native/image_manifest.c)
exechost_fuzz(layer USES native_images
    DECODES host/native/image_layer.c host/native/image_tree.c)
