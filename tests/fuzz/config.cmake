exechost_fuzz(config USES config
    DECODES server/config.c server/config_settings.c server/config_tokens.c
    WITHOUT config_describe describe config_parse make_absolute roots_of config_*_roots_of config_setting_text config_settings_*)
