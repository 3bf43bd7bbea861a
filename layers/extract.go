package layers

import (
	"regexp"
	"strings"

	"github.com/stratamem/strata/projection"
)

// extract is the default of [WorkingMemory]: it recognizes some forms of
// English statements in user messages. Sections it writes: profile, preferences
// (object → "likes", "dislikes", "prefers"), deadlines, facts (subject →
// value), remembered, requests and allergies (lists).
func extract(list []Event, notes map[string]any) map[string]any {
	p := statements{notes: notes, patch: make(map[string]any)}
	for i := range list {
		e := &list[i]
		if e.Kind != projection.Message || e.Role != projection.User {
			continue
		}
		p.day = e.Time.Format("2006-01-02")
		for s := range sentences(strings.ReplaceAll(e.Text, "’", "'")) {
			if !strings.HasSuffix(s, "?") && len(s) <= 600 {
				p.sentence(strings.TrimRight(s, ".!。！ "))
			}
		}
	}
	return p.patch
}

// statements collects what sentences state, as a patch.
type statements struct {
	notes map[string]any // the present ones
	patch map[string]any
	day   string // when the sentence was said
}

var (
	leadIn = regexp.MustCompile(`(?i)^(?:(?:no|yes|yeah|ok|okay|hi|hello|hey|oh|well|so|and|also|but|actually|sorry|btw|by the way|fyi|correction|wait|thanks|thank you|one more thing)\b[,:;!. -]*)+`)

	// clauseEnd matches where a clause ends and a new statement begins; group 1 is
	// where the new one begins.
	clauseEnd = regexp.MustCompile(`(?i)(?:[,;]\s*(?:and|but|so)?|\s(?:and|but|so))\s+((?:i|i'm|i've|my|we|the|please|call|remember|you can call)\b)`)

	rememberThis = regexp.MustCompile(`(?i)^(?:please |can you |could you )?(?:remember|keep in mind|don't forget|do not forget|note|make a note)(?:( that)| (to)\b|:)?\s+(.+)$`)
	forgetThis   = regexp.MustCompile(`(?i)^(?:please )?forget (?:that |about |what i said about )?(.+)$`)
	factIs       = regexp.MustCompile(`^(.{2,60}?) (?:is|are|=) (?:now )?(.+)$`)

	nameIs      = regexp.MustCompile(`(?i)^(?:my name(?:'s| is)|i am called|i'm called)(?: actually| really| now)? (.+)$`)
	callMe      = regexp.MustCompile(`(?i)^(?:(?:please|you can|just) )*call me (.+)$`)
	properName  = regexp.MustCompile(`^\p{Lu}[\p{L}\p{M}'.-]*(?: (?:\p{Lu}[\p{L}\p{M}'.-]*|de|del|von|van|der|la|bin|al))*`)
	livesIn     = regexp.MustCompile(`(?i)^(?:(?:i|we) (?:now |currently )?(?:live in|have moved to|moved to|just moved to)|i(?:'ve| have) (?:just )?moved to|i(?:'m| am)(?: now| currently)? based in)`)
	worksAt     = regexp.MustCompile(`(?i)^i (?:now |currently )?work (?:at|for) (.+)$`)
	worksAs     = regexp.MustCompile(`(?i)^i (?:now |currently )?work as (?:an? )?(.+)$`)
	allergicTo  = regexp.MustCompile(`(?i)^i(?:'m| am) (?:severely |very )?allergic to (.+)$`)
	eats        = regexp.MustCompile(`(?i)^i(?:'m| am)(?: now)?(?: an?)? (vegetarian|vegan|pescatarian|coeliac|celiac|diabetic|lactose intolerant)$`)
	myIs        = regexp.MustCompile(`(?i)^my (?:new |current )?(favou?rite \p{L}+|[\p{L}-]+(?: \p{L}+)??)(?:'s name)? (?:is|are|was changed to|has changed to|changed to)(?: now| called| named| actually)* (.+)$`)
	deadline    = regexp.MustCompile(`(?i)^the (?:new )?deadline(?: (?:for|of) (?:the )?(.+?))? (?:is|was moved to|has moved to|has been moved to|moved to|was changed to|has changed to|changed to)(?: now)? (.+)$`)
	dueOn       = regexp.MustCompile(`(?i)^(?:the |my )?([^,]{2,60}) (?:is|are)(?: now)? due (?:on |by |at )?(.+)$`)
	prefers     = regexp.MustCompile(`(?i)^i (?:really |much |strongly |generally |usually |always |also |now |still )*(prefer|like|love|enjoy|hate|dislike|don't like|do not like|can't stand|cannot stand|no longer like|no longer prefer) (.+)$`)
	reason      = regexp.MustCompile(`(?i)(?:,| anymore\b| because\b| 'cause\b| since\b| when\b| so much\b| a lot\b).*$`)
	over        = regexp.MustCompile(`(?i)^(.+?) (?:over|to|instead of|rather than) (.+)$`)
	fromNowOn   = regexp.MustCompile(`(?i)^(?:please (always|never) (.+)|from now on,? (?:please )?(.+))$`)
	indefinite  = regexp.MustCompile(`(?i)^(?:it|its|it's|that|this|these|those|your|you|him|her|them|what|how|when|where|who|why|if|whether|the way|the idea|to know|to see|to hear|both|none|neither|one|some|any|not)\b`)
	particular  = regexp.MustCompile(`(?i)^(?:the|all|every) `)
	notFacts    = regexp.MustCompile(`(?i)^(?:when|how|what|who|where|why|if|whether|me|us|it|this|that|him|her|them|the time|last|to)\b`)
	advice      = regexp.MustCompile(`^\S+,`) // "remember, …", "remember Jon, …"
	onlySubject = regexp.MustCompile(`(?i)^(?:my |the |our )`)
)

// attributes are the things that "my … is …" may name, each with the required
// form of its value.
var attributes = map[string]interface{ MatchString(string) bool }{
	"email": regexp.MustCompile(`^\S+@\S+$`), "phone": regexp.MustCompile(`\d{3}`), "birthday": date(tellsWhen),
	"timezone": regexp.MustCompile(`.`), "address": regexp.MustCompile(`\d`), "budget": regexp.MustCompile(`\d`),
	"pronouns": regexp.MustCompile(`/`), "goal": regexp.MustCompile(`^to `), "job": regexp.MustCompile(`(?i)^an? `),
	"role": regexp.MustCompile(`^(?:an? |the |\p{Lu})`), "language": properName, "country": properName, "city": properName,
	"employer": properName, "company": properName, "team": properName, "manager": properName, "boss": properName,
	"wife": properName, "husband": properName, "partner": properName, "girlfriend": properName, "boyfriend": properName,
	"son": properName, "daughter": properName, "mother": properName, "father": properName, "sister": properName,
	"brother": properName, "dog": properName, "cat": properName, "doctor": properName, "dentist": properName,
}

// date is the required form of a birthday.
type date func(string) bool

func (d date) MatchString(s string) bool { return d(s) }

var attributeAliases = map[string]string{
	"e-mail": "email", "email address": "email", "e-mail address": "email", "phone number": "phone",
	"number": "phone", "time zone": "timezone", "birth date": "birthday", "native language": "language", "job title": "role",
}

// sentence processes a sentence without its full stop.
func (p *statements) sentence(s string) {
	s = strings.TrimSpace(leadIn.ReplaceAllString(s, ""))
	if m := rememberThis.FindStringSubmatch(s); m != nil {
		p.remember(m[3], m[1] != "", m[2] != "")
		return
	}
	if m := forgetThis.FindStringSubmatch(s); m != nil {
		p.forget(m[1])
		return
	}
	for s != "" {
		rest := ""
		clause := s
		if at := clauseEnd.FindStringSubmatchIndex(s); at != nil {
			clause, rest = s[:at[0]], s[at[2]:]
		}
		p.clause(strings.TrimSpace(clause))
		s = rest
	}
}

// remember processes what the user asks to be remembered: a statement of a
// known form, a fact "x is y", or the words themselves.
func (p *statements) remember(what string, that, to bool) {
	switch {
	case to:
		p.add("remembered", "to "+what)
	case !that && (notFacts.MatchString(what) || advice.MatchString(what)):
	case p.clause(what):
	default:
		if m := factIs.FindStringSubmatch(what); m != nil && !indefinite.MatchString(m[1]) {
			p.set("facts", strings.ToLower(m[1]), m[2])
			return
		}
		p.add("remembered", what)
	}
}

// forget deletes the entries with the name that the user asks to forget.
func (p *statements) forget(what string) {
	if m := factIs.FindStringSubmatch(what); m != nil {
		what = m[1]
	}
	full := strings.ToLower(what)
	name := onlySubject.ReplaceAllString(full, "")
	for section, v := range p.notes {
		object, ok := v.(map[string]any)
		if !ok {
			continue
		}
		for key := range object {
			if key == full || key == name || strings.ReplaceAll(key, "_", " ") == name {
				p.put(section, key, nil)
			}
		}
	}
}

// clause processes a clause and reports whether it has one of the known forms.
func (p *statements) clause(s string) bool {
	if m := nameIs.FindStringSubmatch(s); m != nil {
		return p.profile("name", nameIn(m[1]))
	}
	if m := callMe.FindStringSubmatch(s); m != nil {
		if m[1] != properName.FindString(m[1]) { // "call me later", "call me a taxi"
			m[1] = ""
		}
		return p.profile("preferred_name", m[1])
	}
	if at := livesIn.FindStringIndex(s); at != nil {
		return p.profile("location", properName.FindString(strings.TrimSpace(s[at[1]:])))
	}
	if m := worksAt.FindStringSubmatch(s); m != nil {
		return p.profile("employer", properName.FindString(m[1]))
	}
	if m := worksAs.FindStringSubmatch(s); m != nil {
		return p.profile("job", m[1])
	}
	if m := allergicTo.FindStringSubmatch(s); m != nil {
		return p.add("allergies", m[1])
	}
	if m := eats.FindStringSubmatch(s); m != nil {
		return p.profile("diet", strings.ToLower(m[1]))
	}
	if m := deadline.FindStringSubmatch(s); m != nil && tellsWhen(m[2]) {
		name := strings.ToLower(m[1])
		if name == "" {
			name = "next"
		}
		return p.set("deadlines", name, m[2])
	}
	if strings.Contains(strings.ToLower(s), " due ") { // few have it, and the expression is slow
		if m := dueOn.FindStringSubmatch(s); m != nil && tellsWhen(m[2]) {
			return p.set("deadlines", strings.ToLower(m[1]), m[2])
		}
	}
	if m := myIs.FindStringSubmatch(s); m != nil {
		return p.attribute(strings.ToLower(m[1]), m[2])
	}
	if m := prefers.FindStringSubmatch(s); m != nil {
		return p.preference(strings.ToLower(m[1]), m[2])
	}
	if m := fromNowOn.FindStringSubmatch(s); m != nil {
		return p.add("requests", strings.TrimSpace(strings.ToLower(m[1])+" "+m[2]+m[3]))
	}
	return false
}

// nameIn returns the name at the start of s: capitalised words, or a single
// word.
func nameIn(s string) string {
	if name := properName.FindString(s); name != "" {
		return name
	}
	if strings.ContainsAny(s, " ,") || indefinite.MatchString(s) {
		return ""
	}
	return s
}

func (p *statements) profile(key, value string) bool { return p.set("profile", key, value) }

// attribute processes "my name is value".
func (p *statements) attribute(name, value string) bool {
	if other, ok := attributeAliases[name]; ok {
		name = other
	}
	if favourite, ok := strings.CutPrefix(strings.Replace(name, "favorite", "favourite", 1), "favourite "); ok {
		return !indefinite.MatchString(value) && p.profile("favourite_"+favourite, value)
	}
	like, ok := attributes[name]
	if !ok || !like.MatchString(value) {
		return false
	}
	if like == properName {
		value = properName.FindString(value)
	}
	return p.profile(name, value)
}

// preference processes what the user likes. It is stored by the object, so that
// a later statement about it replaces an earlier one.
func (p *statements) preference(verb, what string) bool {
	// After a comma or a reason comes chatter.
	what = strings.TrimSpace(reason.ReplaceAllString(what, ""))
	if indefinite.MatchString(what) || particular.MatchString(what) || len(strings.Fields(what)) > 8 || what == "" || what == "to" {
		return false
	}
	switch verb {
	case "prefer":
		m := over.FindStringSubmatch(what)
		if m == nil {
			return p.set("preferences", strings.ToLower(what), "prefers")
		}
		other := clip(strings.ToLower(m[2]))
		if had, ok := p.notes["preferences"].(map[string]any); ok && had[other] != nil {
			p.put("preferences", other, nil)
		}
		return p.set("preferences", strings.ToLower(m[1]), "prefers, over "+m[2])
	case "no longer like", "no longer prefer":
		p.put("preferences", clip(strings.ToLower(what)), nil)
		return true
	case "like", "love", "enjoy":
		return p.set("preferences", strings.ToLower(what), verb+"s")
	case "hate":
		return p.set("preferences", strings.ToLower(what), "hates")
	}
	return p.set("preferences", strings.ToLower(what), "dislikes")
}

// set stores a value, with the day if the value cannot be understood without
// it. It reports whether there was a value.
func (p *statements) set(section, key, value string) bool {
	key, value = clip(key), line(value, 240)
	if key == "" || value == "" {
		return false
	}
	if relative.MatchString(value) && !iso.MatchString(value) {
		value += " (said on " + p.day + ")"
	}
	p.put(section, key, value)
	return true
}

var iso = regexp.MustCompile(`\d{4}-\d\d-\d\d`)

func clip(key string) string { return strings.TrimSpace(line(key, 80)) }

func (p *statements) put(section, key string, value any) {
	object, ok := p.patch[section].(map[string]any)
	if !ok {
		object = make(map[string]any)
		p.patch[section] = object
	}
	object[key] = value
}

// add adds an element to a list.
func (p *statements) add(section, value string) bool {
	value = line(value, 240)
	if value == "" {
		return false
	}
	if relative.MatchString(value) && !iso.MatchString(value) {
		value += " (said on " + p.day + ")"
	}
	list, _ := p.patch[section].([]any)
	p.patch[section] = append(list, value)
	return true
}
