exechost_unit_test(test_web_assets USES web)
