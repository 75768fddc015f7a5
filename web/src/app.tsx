import {render} from 'preact';
import {useEffect, useState} from 'preact/hooks';

import {ApiError, hasToken, onRefused, setToken} from './api';
import {CheckpointsPage} from './checkpoints';
import {CommandPage} from './command';
import {ExecutionPage} from './execution';
import {ExecutionsPage} from './executions';
import {usePlace} from './hooks';
import {LiveState, liveState, onLiveState, startLive} from './live';
import {RunPage, RunsPage} from './runs';
import {ServicePage} from './service';
import {Dialog, Field, Messages} from './ui';

// --- the theme ---

const THEME_KEY = 'exechost.theme';
const THEMES = ['auto', 'light', 'dark'];

function storedTheme(): string {
    const stored = localStorage.getItem(THEME_KEY) ?? 'auto';
    return THEMES.includes(stored) ? stored : 'auto';
}

function applyTheme(theme: string): void {
    document.documentElement.dataset.theme = theme;
}

function ThemeButton() {
    const [theme, setTheme] = useState(storedTheme());
    const next = THEMES[(THEMES.indexOf(theme) + 1) % THEMES.length];
    return (
        <button class="quiet" aria-label={`Theme: ${theme}. Change to ${next}`} title={`Theme: ${theme}`}
            onClick={() => {
                localStorage.setItem(THEME_KEY, next);
                applyTheme(next);
                setTheme(next);
            }}>
            <span aria-hidden="true">{{auto: '◐', light: '☀', dark: '☾'}[theme]}</span>
        </button>
    );
}

// --- who asks ---

function TokenDialog({problem, onClose}: {problem: ApiError | null; onClose: () => void}) {
    const [text, setText] = useState('');
    const use = (value: string) => {
        setToken(value);
        startLive();
        onClose();
    };
    return (
        <Dialog title="Token" onClose={onClose}>
            <form onSubmit={(e) => {
                e.preventDefault();
                use(text.trim());
            }}>
                {problem && <p class="problem" role="alert">{problem.message}</p>}
                <p>It is kept for this tab only, until it is closed, and goes to this service alone.</p>
                <Field label="Bearer token">
                    {(props) => (
                        <input {...props} type="password" autocomplete="off" value={text} required autofocus
                            pattern="[A-Za-z0-9._~+\/=\-]+"
                            onInput={(e) => setText(e.currentTarget.value)} />
                    )}
                </Field>
                <div class="actions">
                    {hasToken() && <button type="button" onClick={() => use('')}>Forget it</button>}
                    <button class="primary">Use it</button>
                </div>
            </form>
        </Dialog>
    );
}

const LIVE_TEXTS: Record<LiveState, string> = {
    connecting: 'connecting', open: 'live', lost: 'reconnecting', refused: 'no access',
};

function LiveMark() {
    const [state, setState] = useState(liveState());
    useEffect(() => onLiveState(setState), []);
    return <span class={`live ${state}`} role="status">{LIVE_TEXTS[state]}</span>;
}

// --- the shell ---

const SECTIONS: [string, string][] = [
    ['executions', 'Executions'], ['checkpoints', 'Checkpoints'], ['programs', 'Programs'],
    ['service', 'Service'],
];

function Content() {
    const {parts, params} = usePlace();
    const [section, id, ...rest] = parts;
    switch (section ?? 'executions') {
        case 'executions':
            if (id === undefined) {
                return <ExecutionsPage params={params} />;
            }
            if (rest[0] === 'commands' && rest[1] !== undefined) {
                return <CommandPage key={`${id}/${rest[1]}/${params.get('incarnation') ?? ''}`}
                    executionId={id} commandId={rest[1]} incarnation={params.get('incarnation')} />;
            }
            return <ExecutionPage key={`${id}/${params.get('incarnation') ?? ''}`} executionId={id}
                tab={rest[0] ?? 'commands'} params={params} />;
        case 'checkpoints':
            return <CheckpointsPage shared={id === 'shared'} />;
        case 'programs':
            return id === undefined ? <RunsPage /> : <RunPage key={id} runId={id} />;
        case 'service':
            return <ServicePage />;
        default:
            return <p class="empty">There is nothing here. <a href="#/executions">Executions</a></p>;
    }
}

function App() {
    const [asks, setAsks] = useState<{problem: ApiError | null} | null>(null);
    const [epoch, setEpoch] = useState(0);
    const {parts} = usePlace();
    const section = parts[0] ?? 'executions';
    useEffect(() => onRefused((problem) => setAsks((old) => old ?? {problem})), []);
    useEffect(() => {
        startLive();
    }, []);
    return (
        <>
            <a class="skip" href="#main" onClick={(e) => {
                e.preventDefault();
                document.getElementById('main')!.focus();
            }}>Skip to content</a>
            <header class="top">
                <a class="brand" href="#/executions">exechost</a>
                <nav aria-label="Sections">
                    {SECTIONS.map(([name, title]) => (
                        <a key={name} href={`#/${name}`} aria-current={name === section ? 'page' : undefined}>{title}</a>
                    ))}
                </nav>
                <div class="top-end">
                    <LiveMark />
                    <button class="quiet" onClick={() => setAsks({problem: null})}>Token</button>
                    <ThemeButton />
                </div>
            </header>
            <main id="main" tabIndex={-1} key={epoch}><Content /></main>
            {asks && <TokenDialog problem={asks.problem} onClose={() => {
                setAsks(null);
                setEpoch(epoch + 1);
            }} />}
            <Messages />
        </>
    );
}

applyTheme(storedTheme());
render(<App />, document.getElementById('root')!);
