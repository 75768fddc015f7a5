// A command's output as lines, in the order in which they began, each of one of both streams. Keeps the
// newest lines only: the whole of it is a download.
import {endStyle, plainText, PLAIN, Style} from './ansi';

export type StreamName = 'stdout' | 'stderr';

export interface Line {
    stream: StreamName;
    text: string;
    start: Style; // in force at its begin
    number: number;
}

export interface OutputEvent {
    seq: number;
    type: string;
    at: string;
    data?: string;
    dataBase64?: string;
}

const LINES_MAX = 200000;
const LINE_MAX = 20000;

interface Open {
    line: Line | null;
    style: Style;
    decoder: TextDecoder;
}

export class Transcript {
    lines: Line[] = [];
    dropped = 0;
    private numbers = 0;
    private readonly open: Record<StreamName, Open> = {
        stdout: {line: null, style: PLAIN, decoder: new TextDecoder()},
        stderr: {line: null, style: PLAIN, decoder: new TextDecoder()},
    };

    add(event: OutputEvent): void {
        const stream = event.type as StreamName;
        const {decoder} = this.open[stream];
        if (event.dataBase64 !== undefined) {
            const raw = Uint8Array.from(atob(event.dataBase64), (c) => c.charCodeAt(0));
            this.write(stream, decoder.decode(raw, {stream: true}));
        } else {
            this.write(stream, decoder.decode() + (event.data ?? ''));
        }
    }

    private write(stream: StreamName, text: string): void {
        const open = this.open[stream];
        let from = 0;
        while (from < text.length) {
            const end = text.indexOf('\n', from);
            const piece = text.slice(from, end < 0 ? text.length : end);
            open.line ??= this.begin(stream, open.style);
            if (open.line.text.length < LINE_MAX) {
                open.line.text = (open.line.text + piece).slice(0, LINE_MAX);
            }
            if (end < 0) {
                return;
            }
            open.style = endStyle(open.line.text, open.style);
            open.line = null;
            from = end + 1;
        }
    }

    private begin(stream: StreamName, start: Style): Line {
        const line = {stream, text: '', start, number: ++this.numbers};
        this.lines.push(line);
        if (this.lines.length > LINES_MAX * 1.1) {
            this.dropped += this.lines.length - LINES_MAX;
            this.lines = this.lines.slice(-LINES_MAX);
        }
        return line;
    }
}

// What a carriage return leaves to be seen of a line.
export function visible(text: string): string {
    const end = text.replace(/\r+$/, '');
    return end.slice(end.lastIndexOf('\r') + 1);
}

export function isCut(line: Line): boolean {
    return line.text.length >= LINE_MAX;
}

// Indexes of the lines that have the text, whatever its case.
export function search(lines: Line[], text: string): number[] {
    const wanted = text.toLowerCase();
    const found: number[] = [];
    if (wanted !== '') {
        lines.forEach((line, i) => {
            if (plainText(visible(line.text)).toLowerCase().includes(wanted)) {
                found.push(i);
            }
        });
    }
    return found;
}
