exechost_unit_test(test_native_images USES native_images workspace base
                   SOURCES native_fixture.c workspace_fixture.c)
exechost_unit_test(test_native_layers USES native_images workspace base
                   SOURCES native_fixture.c workspace_fixture.c)
exechost_unit_test(test_native_needs USES native_needs base)
exechost_unit_test(test_native_crash USES native_images workspace base
                   SOURCES native_fixture.c workspace_fixture.c)
