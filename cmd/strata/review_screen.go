package main

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/stratamem/strata/soma"
	"github.com/stratamem/strata/storage"
)

// The full-screen view uses version 2 of Bubble Tea, the most widely used
// terminal library; version 1 is no longer maintained. It only reads keys and
// repaints: the view is made by the functions that also print. It costs 13
// small modules and 2 MB of the program.

// desk gives a reviewer access to the store. Each of its methods opens the
// store and closes it.
type desk struct {
	ctx   context.Context // of the verb
	db    string
	actor soma.Actor
}

// The decisions at a desk.
const (
	deskPromote   = "promote"
	deskReject    = "reject"
	deskSupersede = "supersede" // promote, and replace another
	deskRatify    = "ratify"
)

// reviewItems returns what awaits review.
func (d *desk) reviewItems() (all []reviewItem, err error) {
	err = readKnowledge(d.ctx, "review", d.db, func(s *soma.Store) error {
		all, err = readReviewItems(d.ctx, s)
		return err
	})
	return all, err
}

// decide applies a verb to an item, if it is still what the reviewer has read,
// and says what was done. old is the canon entity to be superseded, if any.
func (d *desk) decide(verb string, p *reviewItem, old, reason string) (said string, err error) {
	id := p.id()
	err = writeKnowledge(d.ctx, "review", d.db, func(s *soma.Store, _ storage.Adapter) error {
		w := s.As(d.actor)
		now, err := s.Read(d.ctx, id)
		if err != nil {
			return err
		}
		if len(changedFields(documentOf(p.entity), documentOf(now))) > 0 {
			return fmt.Errorf("%s changed since it was shown: read it again", id)
		}
		switch verb {
		case deskReject:
			said = "rejected " + id
			return refusal(w.Reject(d.ctx, id, reason))
		case deskRatify:
			said = "ratified " + id
			return refusal(w.Ratify(d.ctx, id, reason))
		}
		var canon *soma.Entity
		if verb == deskSupersede {
			canon, err = w.Supersede(d.ctx, old, id, p.entity.Digest(), reason)
		} else {
			canon, err = w.Promote(d.ctx, id, p.entity.Digest(), reason)
		}
		if err != nil {
			return refusal(err)
		}
		said = "promoted: " + entityName(canon) + " holds"
		if verb == deskSupersede {
			said += " in the place of " + old
		}
		return nil
	})
	return said, err
}

// reviewScreen runs the review on a terminal.
func (t *tool) reviewScreen(ctx context.Context, p *screen, o *reviewOptions) error {
	actor, err := t.person("review", o.as)
	if err != nil {
		return err
	}
	d := &desk{ctx, o.db, actor}
	all, err := d.reviewItems() // report problems of the store before the screen changes
	if err != nil {
		return err
	}
	// What engines log would be painted over.
	var late lateWriter
	before := slog.Default()
	slog.SetDefault(newLogger(&late))
	defer func() {
		slog.SetDefault(before)
		late.flush(t)
	}()
	m := &reviewModel{desk: d, who: actor.Name, color: p.color, all: all}
	_, err = tea.NewProgram(m, tea.WithContext(ctx), tea.WithInput(t.in), tea.WithOutput(t.out), tea.WithoutSignalHandler()).Run()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// lateWriter holds back what is written until flush.
type lateWriter struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (w *lateWriter) Write(b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.text.Write(b)
}

func (w *lateWriter) flush(t *tool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	fmt.Fprint(t.err, w.text.String())
}

// reviewModel is the state of the full-screen view.
type reviewModel struct {
	desk          *desk
	who           string
	color         bool
	width, height int

	all    []reviewItem
	at     int // index in all of the item shown
	scroll int // lines of it above the screen
	busy   bool
	note   string // what was done, or went wrong
	asking *question
}

// question is what the reviewer is asked before a decision.
type question struct {
	verb   string
	old    string // the canon entity that is superseded
	naming bool   // whether old is being asked for, or else the reason
	text   string // typed so far
}

func (q *question) prompt() string {
	switch {
	case q.naming:
		return "Which canon entity does it replace?"
	case q.verb == deskPromote:
		return "Promote. Why? (may be empty)"
	case q.verb == deskSupersede:
		return "Promote in its place. Why?"
	}
	return strings.ToUpper(q.verb[:1]) + q.verb[1:] + ". Why?"
}

// itemsRead and decided are the desk's answers.
type (
	itemsRead struct {
		all []reviewItem
		err error
	}
	decided struct {
		said string
		err  error
	}
)

// Init implements [tea.Model].
func (m *reviewModel) Init() tea.Cmd { return nil }

// Update implements [tea.Model].
func (m *reviewModel) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		m.width, m.height = msg.Width, msg.Height
	case itemsRead:
		m.busy = false
		if msg.err != nil {
			m.note = msg.err.Error()
			return m, nil
		}
		m.all = msg.all
		m.move(0)
	case decided:
		m.note = msg.said
		if msg.err != nil {
			m.note = msg.err.Error()
		}
		return m, m.read()
	case tea.PasteMsg:
		if m.asking != nil {
			m.asking.text += strings.Join(strings.Fields(msg.Content), " ")
		}
	case tea.KeyPressMsg:
		if m.asking != nil {
			return m, m.answer(msg)
		}
		return m, m.key(msg.String())
	}
	return m, nil
}

func (m *reviewModel) read() tea.Cmd {
	m.busy = true
	return func() tea.Msg {
		all, err := m.desk.reviewItems()
		return itemsRead{all, err}
	}
}

// key handles a key while nothing is asked.
func (m *reviewModel) key(key string) tea.Cmd {
	if key == "ctrl+c" || key == "q" && !m.busy {
		return tea.Quit
	}
	if m.busy {
		return nil
	}
	page := max(m.height-4, 1)
	switch key {
	case "up", "k":
		m.move(-1)
	case "down", "j":
		m.move(1)
	case "pgdown", "space":
		m.scroll += page // View limits it
	case "pgup":
		m.scroll = max(m.scroll-page, 0)
	case "l":
		return m.read()
	case "p", "r", "s":
		m.ask(key)
	}
	return nil
}

func (m *reviewModel) move(n int) {
	to := max(min(m.at+n, len(m.all)-1), 0)
	if to != m.at || n == 0 {
		m.scroll = 0
	}
	m.at = to
}

// ask begins a decision about the item shown.
func (m *reviewModel) ask(key string) {
	m.note = ""
	if len(m.all) == 0 {
		return
	}
	switch p := &m.all[m.at]; {
	case p.held != nil && key == "p" && p.entity != nil:
		m.asking = &question{verb: deskRatify}
	case p.held != nil:
		m.note = "it is canon in doubt: " + p.held.Repair
	case key == "p":
		m.asking = &question{verb: deskPromote}
	case key == "r":
		m.asking = &question{verb: deskReject}
	default:
		m.asking = &question{verb: deskSupersede, naming: true}
		if len(p.conflicts) > 0 {
			m.asking.text = entityName(p.conflicts[0])
		}
	}
}

// answer handles a key while something is asked.
func (m *reviewModel) answer(key tea.KeyPressMsg) tea.Cmd {
	q := m.asking
	switch key.String() {
	case "ctrl+c", "esc":
		m.asking, m.note = nil, "nothing was decided"
	case "enter":
		return m.submit()
	case "backspace":
		runes := []rune(q.text)
		q.text = string(runes[:max(len(runes)-1, 0)])
	case "ctrl+u":
		q.text = ""
	default:
		q.text += key.Key().Text
	}
	return nil
}

// submit accepts the answer, and makes the decision if it was the last.
func (m *reviewModel) submit() tea.Cmd {
	q := m.asking
	text := strings.TrimSpace(q.text)
	switch {
	case text == "" && q.verb != deskPromote:
		m.note = "it wants an answer; esc leaves it"
		return nil
	case q.naming:
		q.old, q.naming, q.text = text, false, ""
		return nil
	}
	m.asking, m.note, m.busy = nil, "", true
	p := &m.all[m.at]
	return func() tea.Msg {
		said, err := m.desk.decide(q.verb, p, q.old, text)
		return decided{said, err}
	}
}

// View implements [tea.Model].
func (m *reviewModel) View() tea.View {
	v := tea.NewView(strings.Join(m.lines(), "\n"))
	v.AltScreen = true
	v.WindowTitle = "strata review"
	return v
}

// lines returns the lines of the screen: a head, the list next to the item
// shown, and at the foot the last outcome, and the keys or a question.
func (m *reviewModel) lines() []string {
	if m.width < 20 || m.height < 6 {
		return []string{"too small"}
	}
	s := &screen{color: m.color}
	waiting := 0
	for i := range m.all {
		if m.all[i].held == nil {
			waiting++
		}
	}
	head := fmt.Sprintf("strata review · %d pending · %d quarantined · %s", waiting, len(m.all)-waiting, escape(m.who, false))
	lines := []string{s.paint(bold, truncate(head, m.width)), s.paint(faint, strings.Repeat("─", m.width))}
	notes := wrap(escape(m.note, false), m.width)
	notes = notes[:min(len(notes), 3, m.height-4)]
	rows := m.height - 3 - len(notes)
	left := max(min(m.width/3, 40), 12)
	right := m.width - left - 3
	list, shown := m.list(s, left, rows), m.shown(s, right)
	m.scroll = max(min(m.scroll, len(shown)-rows), 0)
	shown = shown[m.scroll:]
	for i := range rows {
		line := strings.Repeat(" ", left)
		if i < len(list) {
			line = list[i]
		}
		line += s.paint(faint, " │ ")
		if i < len(shown) {
			line += shown[i]
		}
		lines = append(lines, line)
	}
	for _, note := range notes {
		lines = append(lines, s.paint(yellow, note))
	}
	return append(lines, m.foot(s))
}

func (m *reviewModel) foot(s *screen) string {
	switch q := m.asking; {
	case q != nil:
		prompt := truncate(q.prompt(), m.width/2) + " "
		text := []rune(escape(q.text, false))
		for columns(string(text)) > m.width-columns(prompt)-1 { // keep the end, where text is typed
			text = text[1:]
		}
		return s.paint(bold, prompt) + string(text) + "█"
	case m.busy:
		return "…"
	}
	return s.paint(faint, truncate("p promote · r reject · s supersede · ↑↓ choose · space/pgup scroll · l reload · q quit", m.width))
}

// list returns the left side: lines of the given width.
func (m *reviewModel) list(s *screen, width, rows int) []string {
	var lines []string
	from := max(min(m.at-rows/2, len(m.all)-rows), 0)
	for i := from; i < min(from+rows, len(m.all)); i++ {
		p := &m.all[i]
		mark, lead := "  ", p.confidence()
		if p.held != nil {
			lead = "!!!!"
		}
		c := plain
		if i == m.at {
			mark, c = "> ", bold
		}
		text := mark + lead + " " + preview(p.name(), max(width-7, 1))
		lines = append(lines, s.paint(c, pad(truncate(text, width), width)))
	}
	return lines
}

// shown returns the right side: the item, in lines of at most width columns.
func (m *reviewModel) shown(s *screen, width int) []string {
	if len(m.all) == 0 {
		return wrap("Nothing waits for a reviewer.", width)
	}
	var lines []string
	add := func(c color, text string) {
		for _, line := range wrap(printable(text), width) {
			lines = append(lines, s.paint(c, truncate(line, width)))
		}
	}
	p := &m.all[m.at]
	e := p.entity
	add(bold, p.name())
	add(faint, p.id())
	if h := p.held; h != nil {
		add(red, "Quarantined, nobody is served it: "+h.Reason+".")
		if h.Path != "" {
			add(faint, h.Path)
		}
		todo := "To do: " + h.Repair + "."
		if e != nil {
			todo += " p ratifies it as it is."
		}
		add(plain, todo)
	}
	if e == nil {
		return lines
	}
	about := []string{"confidence " + strings.TrimSpace(p.confidence()), "by " + cmp.Or(e.SourceWorker, "hand")}
	if e.Team != "" {
		about = append(about, "team "+e.Team)
	}
	if !e.DecayAt.IsZero() {
		about = append(about, "decays "+e.DecayAt.UTC().Format(time.DateOnly))
	}
	for _, name := range []string{"condition", "enforcement"} { // what a policy will do
		if v := e.Text(name); v != "" {
			about = append(about, name+" "+v)
		}
	}
	add(faint, strings.Join(about, " · "))
	for _, reason := range p.doubts {
		add(red, "look-alike: "+reason)
	}
	if e.Body != "" {
		add(plain, "")
		add(plain, strings.TrimRight(e.Body, "\n"))
	}
	for i := range p.evidence {
		c := &p.evidence[i]
		add(plain, "")
		hue := cyan
		if c.Entity == nil || c.Changed {
			hue = red
		}
		add(hue, "evidence: "+citedText(c))
		if c.Entity != nil && c.Entity.Body != "" {
			add(plain, strings.TrimRight(c.Entity.Body, "\n"))
		}
	}
	for _, c := range p.conflicts {
		add(plain, "")
		add(red, "contradicts: "+entityName(c)+" "+c.Name)
		add(plain, strings.TrimRight(c.Body, "\n"))
	}
	return lines
}
