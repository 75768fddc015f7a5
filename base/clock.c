#include "base/clock.h"

#include <ctype.h>
#include <stdbool.h>
#include <string.h>
#include <time.h>

static const int64_t LAST_MS = 253402300799999; /* 9999-12-31T23:59:59.999Z */

int64_t clock_wall_ms(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_REALTIME, &ts);
    return (int64_t)ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

int64_t clock_mono_us(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (int64_t)ts.tv_sec * 1000000 + ts.tv_nsec / 1000;
}

int64_t clock_mono_ms(void)
{
    return clock_mono_us() / 1000;
}

void clock_format(int64_t wall_ms, char out[CLOCK_TEXT_SIZE])
{
    struct tm tm;
    time_t seconds;
    unsigned ms;

    if (wall_ms < 0) {
        wall_ms = 0;
    } else if (wall_ms > LAST_MS) {
        wall_ms = LAST_MS;
    }
    seconds = (time_t)(wall_ms / 1000);
    ms = (unsigned)(wall_ms % 1000);
    gmtime_r(&seconds, &tm);
    snprintf(out, CLOCK_TEXT_SIZE, "%04u-%02u-%02uT%02u:%02u:%02u.%03uZ",
             (unsigned)(tm.tm_year + 1900) % 10000U, (unsigned)(tm.tm_mon + 1) % 100U,
             (unsigned)tm.tm_mday % 100U, (unsigned)tm.tm_hour % 100U, (unsigned)tm.tm_min % 100U,
             (unsigned)tm.tm_sec % 100U, ms % 1000U);
}

/* Reads exactly `digits` digits. */
static int take_number(const char **p, int digits, int *out)
{
    int value = 0;

    for (int i = 0; i < digits; i++) {
        if (!isdigit((unsigned char)(*p)[i])) {
            return -1;
        }
        value = value * 10 + ((*p)[i] - '0');
    }
    *p += digits;
    *out = value;
    return 0;
}

static int take_char(const char **p, const char *accepted)
{
    if (**p == '\0' || strchr(accepted, **p) == NULL) {
        return -1;
    }
    (*p)++;
    return 0;
}

static int take_date(const char **p, struct tm *tm)
{
    static const int DAYS[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    int year;
    int month;
    int day;
    bool leap;

    if (take_number(p, 4, &year) != 0 || take_char(p, "-") != 0 || take_number(p, 2, &month) != 0 ||
        take_char(p, "-") != 0 || take_number(p, 2, &day) != 0 || month < 1 || month > 12) {
        return -1;
    }
    leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
    if (day < 1 || day > DAYS[month - 1] + (leap && month == 2 ? 1 : 0)) {
        return -1;
    }
    tm->tm_year = year - 1900;
    tm->tm_mon = month - 1;
    tm->tm_mday = day;
    return 0;
}

static int take_time(const char **p, struct tm *tm)
{
    if (take_number(p, 2, &tm->tm_hour) != 0 || take_char(p, ":") != 0 ||
        take_number(p, 2, &tm->tm_min) != 0 || take_char(p, ":") != 0 ||
        take_number(p, 2, &tm->tm_sec) != 0) {
        return -1;
    }
    /* 60 is a leap second; timegm() carries it into the next minute. */
    return tm->tm_hour <= 23 && tm->tm_min <= 59 && tm->tm_sec <= 60 ? 0 : -1;
}

static int take_fraction(const char **p, int *ms)
{
    int digits = 0;

    *ms = 0;
    if (**p != '.') {
        return 0;
    }
    (*p)++;
    while (isdigit((unsigned char)**p) && digits < 9) {
        if (digits < 3) {
            *ms = *ms * 10 + (**p - '0');
        }
        digits++;
        (*p)++;
    }
    for (int i = digits; i < 3; i++) {
        *ms *= 10;
    }
    return digits > 0 ? 0 : -1;
}

static int take_offset(const char **p, int *minutes)
{
    int sign = **p == '-' ? -1 : 1;
    int hour;
    int minute;

    *minutes = 0;
    if (take_char(p, "Zz") == 0) {
        return 0;
    }
    if (take_char(p, "+-") != 0 || take_number(p, 2, &hour) != 0 || take_char(p, ":") != 0 ||
        take_number(p, 2, &minute) != 0 || hour > 23 || minute > 59) {
        return -1;
    }
    *minutes = sign * (hour * 60 + minute);
    return 0;
}

int clock_parse(const char *text, int64_t *wall_ms)
{
    struct tm tm = {0};
    int64_t result;
    int ms;
    int offset;

    if (take_date(&text, &tm) != 0 || take_char(&text, "Tt") != 0 || take_time(&text, &tm) != 0 ||
        take_fraction(&text, &ms) != 0 || take_offset(&text, &offset) != 0 || *text != '\0') {
        return -1;
    }
    result = ((int64_t)timegm(&tm) - (int64_t)offset * 60) * 1000 + ms;
    if (result < 0 || result > LAST_MS) {
        return -1;
    }
    *wall_ms = result;
    return 0;
}

bool clock_trust_ask(struct clock_trust *t, int64_t wall_ms, int64_t mono_ms)
{
    bool first = t->wall == 0;
    int64_t ahead = (wall_ms - t->wall) - (mono_ms - t->mono);

    t->wall = wall_ms;
    t->mono = mono_ms;
    if (!first && ahead > CLOCK_JUMP_MS) {
        t->doubted_until = mono_ms + CLOCK_DOUBT_MS;
    }
    return mono_ms >= t->doubted_until;
}
