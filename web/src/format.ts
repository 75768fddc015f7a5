// Figures for people.

const UNITS = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];

export function bytes(n: number | null | undefined): string {
    if (n === null || n === undefined) {
        return '–';
    }
    let unit = 0;
    while (n >= 1024 && unit < UNITS.length - 1) {
        n /= 1024;
        unit++;
    }
    return `${unit === 0 || n >= 100 ? Math.round(n) : Number(n.toFixed(1))} ${UNITS[unit]}`;
}

// "256 MiB", "1.5g", "4096". NaN for anything else.
export function parseBytes(text: string): number {
    const m = /^\s*([0-9]+(?:\.[0-9]+)?)\s*(?:([kmgt])(?:i?b)?|b)?\s*$/i.exec(text);
    if (m === null) {
        return NaN;
    }
    const power = m[2] === undefined ? 0 : 'kmgt'.indexOf(m[2].toLowerCase()) + 1;
    return Math.round(Number(m[1]) * 1024 ** power);
}

export function duration(ms: number | null | undefined): string {
    if (ms === null || ms === undefined) {
        return '–';
    }
    if (ms < 1000) {
        return `${Math.round(ms)} ms`;
    }
    const s = ms / 1000;
    if (s < 60) {
        return `${s < 10 ? s.toFixed(1) : Math.floor(s)} s`;
    }
    const m = Math.floor(s / 60);
    if (m < 60) {
        return `${m} min ${Math.floor(s % 60)} s`;
    }
    return m < 2880 ? `${Math.floor(m / 60)} h ${m % 60} min` : `${Math.floor(m / 1440)} d`;
}

// The same in one unit.
export function shortDuration(ms: number): string {
    const m = ms / 60000;
    return m < 1 ? `${Math.floor(ms / 1000)} s` : m < 120 ? `${Math.floor(m)} min`
        : m < 2880 ? `${Math.floor(m / 60)} h` : `${Math.floor(m / 1440)} d`;
}

// "10 s", "5 min", "1h", "250ms"; a bare number is seconds.
export function parseDuration(text: string): number {
    const m = /^\s*([0-9]+(?:\.[0-9]+)?)\s*(ms|s|m|min|h|d)?\s*$/i.exec(text);
    if (m === null) {
        return NaN;
    }
    const scale = {ms: 1, s: 1000, m: 60000, min: 60000, h: 3600000, d: 86400000};
    return Math.round(Number(m[1]) * scale[(m[2] ?? 's').toLowerCase() as keyof typeof scale]);
}

export function time(at: string | null | undefined): string {
    if (!at) {
        return '–';
    }
    const d = new Date(at);
    const clock = d.toLocaleTimeString([], {hour12: false});
    return d.toDateString() === new Date().toDateString() ? clock : `${d.toISOString().slice(0, 10)} ${clock}`;
}

// "base@sha256:0f4c1ff5" of a pinned reference.
export function shortImage(reference: string): string {
    const [name, digest] = reference.split('@');
    const last = name.slice(name.lastIndexOf('/') + 1);
    return digest === undefined ? last : `${last}@${digest.replace('sha256:', '').slice(0, 8)}`;
}

export function millis(at: string | null | undefined): number {
    return at ? Date.parse(at) : NaN;
}

// A command as a shell would want it typed.
export function commandLine(command: string, args: string[]): string {
    return [command, ...args]
        .map((a) => (/^[A-Za-z0-9_@%+=:,./-]+$/.test(a) ? a : `'${a.replaceAll("'", "'\\''")}'`))
        .join(' ');
}
