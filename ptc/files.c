#include "ptc/files.h"

#include "base/embed.h"

EMBED(launch, PTC_LAUNCH_FILE);
EMBED(inside, PTC_INSIDE_FILE);
EMBED(main, PTC_BOOTSTRAP "/main.mjs");
EMBED(channel, PTC_BOOTSTRAP "/channel.mjs");
EMBED(json, PTC_BOOTSTRAP "/json.mjs");
EMBED(output, PTC_BOOTSTRAP "/output.mjs");
EMBED(program, PTC_BOOTSTRAP "/program.mjs");

const struct ptc_file ptc_launch_file = {"launch", launch_start, launch_end};

const struct ptc_file ptc_inside_file = {"inside", inside_start, inside_end};

const struct ptc_file ptc_bootstrap_files[] = {
    {"main.mjs", main_start, main_end},          {"channel.mjs", channel_start, channel_end},
    {"json.mjs", json_start, json_end},          {"output.mjs", output_start, output_end},
    {"program.mjs", program_start, program_end}, {NULL, NULL, NULL},
};
