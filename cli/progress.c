#include "cli/progress.h"

#include <time.h>

enum { SILENT_MS = 500, BETWEEN_MS = 100, BAR_WIDTH = 24 };

static int64_t now_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

void progress_init(struct progress *progress, const char *what)
{
    *progress = (struct progress){.what = what, .enabled = isatty(STDERR_FILENO) == 1};
    progress->started_ms = now_ms();
    progress->shown_ms = progress->started_ms;
}

void progress_size_text(int64_t bytes, char out[PROGRESS_SIZE_TEXT])
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    size_t unit = 0;
    double value = (double)bytes;

    while (value >= 1024 && unit + 1 < ARRAY_SIZE(units)) {
        value /= 1024;
        unit++;
    }
    snprintf(out, PROGRESS_SIZE_TEXT, unit == 0 ? "%.0f %s" : "%.1f %s", value, units[unit]);
}

void progress_line(const char *what, int64_t done, int64_t total, int64_t elapsed_ms,
                   char out[PROGRESS_LINE])
{
    char done_text[PROGRESS_SIZE_TEXT];
    char total_text[PROGRESS_SIZE_TEXT];
    char speed_text[PROGRESS_SIZE_TEXT];
    char bar[BAR_WIDTH + 1];
    int filled;

    progress_size_text(done, done_text);
    progress_size_text(elapsed_ms > 0 ? done * 1000 / elapsed_ms : 0, speed_text);
    if (total <= 0) {
        snprintf(out, PROGRESS_LINE, "%s  %s  %s/s", what, done_text, speed_text);
        return;
    }
    progress_size_text(total, total_text);
    filled = (int)(done >= total ? BAR_WIDTH : done * BAR_WIDTH / total);
    for (int i = 0; i < BAR_WIDTH; i++) {
        bar[i] = i < filled ? '#' : '.';
    }
    bar[BAR_WIDTH] = '\0';
    snprintf(out, PROGRESS_LINE, "%s  [%s] %3d%%  %s of %s  %s/s", what, bar,
             (int)(done >= total ? 100 : done * 100 / total), done_text, total_text, speed_text);
}

bool progress_is_due(const struct progress *progress)
{
    int64_t now = now_ms();

    return progress->enabled && now - progress->started_ms >= SILENT_MS &&
           now - progress->shown_ms >= BETWEEN_MS;
}

void progress_show(struct progress *progress, int64_t done, int64_t total)
{
    char line[PROGRESS_LINE];
    int64_t now = now_ms();

    if (!progress_is_due(progress)) {
        return;
    }
    progress_line(progress->what, done, total, now - progress->started_ms, line);
    /* Back to the margin, and what an earlier, longer line left behind it wiped out. */
    fprintf(stderr, "\r%s\033[K", line);
    fflush(stderr);
    progress->shown = true;
    progress->shown_ms = now;
}

void progress_end(struct progress *progress)
{
    if (progress->shown) {
        fputs("\r\033[K", stderr);
        fflush(stderr);
        progress->shown = false;
    }
}
