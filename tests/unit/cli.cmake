exechost_unit_test(test_cli_options USES cli)
