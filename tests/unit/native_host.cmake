exechost_unit_test(test_native_host USES native SOURCES sandbox_fixture.c)
