exechost_unit_test(test_docker_head USES docker)
exechost_unit_test(test_docker_lines USES docker)
exechost_unit_test(test_docker_engine USES docker)
exechost_unit_test(test_docker_container USES docker)
exechost_unit_test(test_docker_stuck USES docker)
# On the real engine.
exechost_unit_test(test_docker_host USES docker SOURCES docker_fixture.c)
exechost_unit_test(test_docker_transfer USES docker SOURCES docker_fixture.c)
exechost_unit_test(test_docker_input USES docker SOURCES docker_fixture.c)
