// Values of programs are shown and sent as the text they came as: JSON.parse would round large numbers
// and could not print deep nesting.

// The text of a member of the object that `text` is; null when it has none of that name.
export function rawMember(text: string, name: string): string | null {
    let depth = 0;
    let start = -1;
    for (let i = 0; i < text.length; i++) {
        const c = text[i];
        if (c === '"') {
            const end = stringEnd(text, i);
            if (depth === 1 && start < 0 && isKey(text, end) && text.slice(i + 1, end - 1) === name) {
                start = text.indexOf(':', end) + 1;
                i = start - 1;
                continue;
            }
            i = end - 1;
        } else if (c === '{' || c === '[') {
            depth++;
        } else if (c === '}' || c === ']' || c === ',') {
            if (start >= 0 && depth === 1) {
                return text.slice(start, i).trim();
            }
            depth -= c === ',' ? 0 : 1;
        }
    }
    return null;
}

// Behind the closing quote of the string that begins at `i`.
function stringEnd(text: string, i: number): number {
    for (i++; i < text.length && text[i] !== '"'; i++) {
        if (text[i] === '\\') {
            i++;
        }
    }
    return i + 1;
}

function isKey(text: string, at: number): boolean {
    while (text[at] === ' ') {
        at++;
    }
    return text[at] === ':';
}

const SHOWN_MAX = 20000;

// Laid out where that loses nothing.
export function pretty(raw: string): string {
    let shown = raw;
    if (raw.length < SHOWN_MAX) {
        try {
            const value = JSON.parse(raw);
            if (JSON.stringify(value) === raw) {
                shown = JSON.stringify(value, null, 2);
            }
        } catch {
            // Too deep to print, or not JSON: as it is.
        }
    }
    return shown.length > SHOWN_MAX
        ? `${shown.slice(0, SHOWN_MAX)}… (${shown.length - SHOWN_MAX} more characters)` : shown;
}
