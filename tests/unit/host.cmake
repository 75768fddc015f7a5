exechost_unit_test(test_host_input USES host)
