exechost_fuzz(config USES config)
