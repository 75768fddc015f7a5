exechost_fuzz(text USES api
    DECODES api/base64.c api/event.c api/list.c
    WITHOUT api_event_started api_event_output api_event_exit add_* change_of_* api_event_change api_event_gap api_event_add api_event_add_*)
exechost_fuzz(policy USES policy
    DECODES policy/plan.c policy/resources.c policy/environment.c policy/workspace.c policy/image.c)
