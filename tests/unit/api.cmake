exechost_unit_test(test_api_json USES api)
exechost_unit_test(test_api_requests USES api)
exechost_unit_test(test_api_views USES api)
exechost_unit_test(test_api_events USES api)
