// Colours of a program's output. Its text is never taken for markup: a line becomes pieces of text
// with attributes, and of all control sequences only those that choose a style (SGR) mean anything.

export interface Style {
    fg: string | null; // class name "c0".."c15", or "#rrggbb"
    bg: string | null;
    bold: boolean;
    dim: boolean;
    italic: boolean;
    underline: boolean;
    inverse: boolean;
    strike: boolean;
}

export interface Piece {
    text: string;
    style: Style;
}

export const PLAIN: Style = {
    fg: null, bg: null, bold: false, dim: false, italic: false, underline: false, inverse: false,
    strike: false,
};

// CSI, OSC, DCS and the like (ended or not), two-character escapes, and other control characters.
const SEQUENCE =
    // eslint-disable-next-line no-control-regex
    /\x1b\[([0-9;:?<=>!]*)[ -/]*([@-~])|\x1b\[[0-9;:?<=>! -/]*$|\x1b[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\|$)|\x1b[ -/]*[0-~]?|[\x00-\x08\x0b-\x1f\x7f-\x9f]/g;

function hex(n: number): string {
    return Math.max(0, Math.min(255, n)).toString(16).padStart(2, '0');
}

function indexed(n: number): string | null {
    if (!(n >= 0 && n <= 255)) {
        return null;
    }
    if (n < 16) {
        return `c${n}`;
    }
    if (n >= 232) {
        return '#' + hex(8 + (n - 232) * 10).repeat(3);
    }
    const level = (v: number) => hex(v === 0 ? 0 : 55 + v * 40);
    const m = n - 16;
    return '#' + level(Math.floor(m / 36)) + level(Math.floor(m / 6) % 6) + level(m % 6);
}

// The colour behind 38 or 48; [colour, how many parameters it took].
function extended(codes: number[], at: number): [string | null, number] {
    if (codes[at] === 5) {
        return [indexed(codes[at + 1]), 2];
    }
    if (codes[at] === 2 && codes.length >= at + 4) {
        return ['#' + hex(codes[at + 1]) + hex(codes[at + 2]) + hex(codes[at + 3]), 4];
    }
    return [null, codes.length];
}

const SWITCHES: Record<number, Partial<Style>> = {
    1: {bold: true}, 2: {dim: true}, 3: {italic: true}, 4: {underline: true}, 7: {inverse: true},
    9: {strike: true}, 22: {bold: false, dim: false}, 23: {italic: false}, 24: {underline: false},
    27: {inverse: false}, 29: {strike: false}, 39: {fg: null}, 49: {bg: null},
};

function choose(style: Style, parameters: string): Style {
    const codes = parameters.split(/[;:]/).map((p) => (p === '' ? 0 : Number(p)));
    let next = {...style};
    for (let i = 0; i < codes.length; i++) {
        const c = codes[i];
        if (c === 0) {
            next = {...PLAIN};
        } else if (SWITCHES[c] !== undefined) {
            Object.assign(next, SWITCHES[c]);
        } else if (c >= 30 && c <= 37) {
            next.fg = `c${c - 30}`;
        } else if (c >= 40 && c <= 47) {
            next.bg = `c${c - 40}`;
        } else if (c >= 90 && c <= 97) {
            next.fg = `c${c - 82}`;
        } else if (c >= 100 && c <= 107) {
            next.bg = `c${c - 92}`;
        } else if (c === 38 || c === 48) {
            const [colour, taken] = extended(codes, i + 1);
            next[c === 38 ? 'fg' : 'bg'] = colour;
            i += taken;
        }
    }
    return next;
}

// The pieces of one line; the style behind it is left in `end`.
export function parseLine(line: string, start: Style): {pieces: Piece[]; end: Style} {
    const pieces: Piece[] = [];
    let style = start;
    let from = 0;
    const add = (to: number) => {
        if (to > from) {
            pieces.push({text: line.slice(from, to), style});
        }
    };
    for (const m of line.matchAll(SEQUENCE)) {
        add(m.index);
        from = m.index + m[0].length;
        if (m[2] === 'm' && /^[0-9;:]*$/.test(m[1])) {
            style = choose(style, m[1]);
        }
    }
    add(line.length);
    return {pieces, end: style};
}

export function endStyle(line: string, start: Style): Style {
    return line.includes('\x1b') ? parseLine(line, start).end : start;
}

export function plainText(line: string): string {
    return line.replace(SEQUENCE, '');
}
