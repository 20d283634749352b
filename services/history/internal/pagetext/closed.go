package pagetext

import (
	"bytes"
	"regexp"
	"strings"

	"opportunity.internal/pkg/api"
)

const (
	maxMatched = 200     // characters of a matched sentence
	maxScan    = 1 << 18 // bytes of text that patterns are matched against
	parkedText = 5000    // bytes of text below which a page may be parked or a page for missing pages

	maxSentence = 1000 // bytes of a sentence that may say that a page is closed
)

// parked matches short pages of domains without a site, and pages that say that there is no such
// page.
var parked = regexp.MustCompile(
	`\bdomain (name )?([^ ]+ )?(is|may be|might be|could be)( now)? (for sale|available for (sale|purchase)|parked)` +
		`|\bbuy this domain\b|\b(interested in|inquire about|offer (on|for)|get|own) this domain\b` +
		`|\bdomain (name )?(has )?expired|\bparked (free|domain)\b|^domain( name)? for sale` +
		`|\b(nom de )?domaine ([^ ]+ )?(est|peut etre) (a vendre|en vente|expire|a expire)` +
		`|\b(acheter|achetez) ce (nom de )?domaine|\bdomaine a vendre|^(error )?404\b` +
		`|^(oops[!,. ]*)?(the |this )?page (was |you('re| are) looking for )?` +
		`(not found|(could not|couldn't|cannot|can't) be found|(no longer|does not|doesn't) exists?)` +
		`|^(oups[!,. ]*)?(la |cette )?page (demandee |que vous (re)?cherchez )?` +
		`(est introuvable|introuvable|non trouvee|n'existe (pas|plus))`)

// Claim is a statement of a page about its own program.
type Claim struct {
	Status   api.ApplicationStatus // ApplicationClosed or ApplicationWaitlist
	Sentence string                // of the page, cut to maxMatched characters
}

// Closed returns the claim of a page that its program takes no more people in Canada, that its
// domain is for sale, or that there is no such page. It returns nil if the page says none of these,
// or also says that the program takes people.
func Closed(p Page) *Claim {
	text := p.Title + "\n" + p.Text[:min(len(p.Text), maxScan)]
	var found *Claim
	position := false // the claim is about one position
	invites, waitlist := false, false
	heading := "" // the sentence before if it is the name of a place
	for start, end := range sentences(text) {
		if end-start > maxSentence {
			continue
		}
		folded := fold(text[start:end])
		if len(p.Text) < parkedText && parked.MatchString(folded) {
			return &Claim{api.ApplicationClosed, cut(text[start:end], maxMatched)}
		}
		if strings.HasSuffix(folded, "?") {
			continue
		}
		sentence := classify(text[start:end])
		if statement(open, heading+sentence) != "" {
			return nil
		}
		said := statement(closed, heading+sentence)
		if said != "" && found == nil {
			found = &Claim{api.ApplicationClosed, cut(text[start:end], maxMatched)}
			position = strings.Contains(said, "p")
		}
		invites = invites || invitation.MatchString(sentence)
		if strings.Contains(sentence, "l") && !strings.Contains(said, "l") && !noWaitlist.MatchString(sentence) {
			waitlist = true
		}
		heading = ""
		if placeName.MatchString(sentence) {
			heading = sentence + "|"
		}
	}
	switch {
	case found == nil, position && invites: // one of several positions
		return nil
	case waitlist:
		found.Status = api.ApplicationWaitlist
	}
	return found
}

// statement returns the part of a classified sentence that matches the pattern and is about this
// program, here and now. It returns "" if there is none.
func statement(pattern *regexp.Regexp, sentence string) string {
	if strings.Contains(sentence, "i") {
		return ""
	}
	for _, at := range pattern.FindAllStringIndex(sentence, -1) {
		said := strings.Trim(sentence[at[0]:at[1]], "|")
		from, to := strings.LastIndex(sentence[:at[0]+1], "|")+1, len(sentence)
		if end := strings.Index(sentence[at[1]-1:], "|"); end >= 0 {
			to = at[1] - 1 + end
		}
		clause := sentence[from:to]
		place := clause
		if !strings.ContainsAny(place, "CGX") {
			place = sentence
		}
		switch {
		case strings.Contains(sentence[:max(at[1], to)], "q"), strings.Contains(sentence[from:at[1]], "Q"): // possibly
		case strings.Contains(clause, "x"): // about something else
		case partial.MatchString(clause) && !strings.Contains(clause, "C"): // applications from some
		case strings.Contains(place, "X"), strings.Contains(place, "G") && !strings.Contains(place, "C"): // elsewhere
		case strings.Contains(clause, "w") && !strings.ContainsAny(said, "eyrl"): // opening hours
		default:
			return said
		}
	}
	return ""
}

// classPattern joins alternatives into a pattern for classified sentences. "~" stands for a word
// that adds nothing, and "-" for any word of the clause that does not change the meaning of the
// rest.
func classPattern(alternatives ...string) *regexp.Regexp {
	classes := strings.NewReplacer("[~", "[_btuDPfm", "~", "[_btuDPfm]", "-", "[^|zqQnN0A]")
	return regexp.MustCompile(classes.Replace(strings.Join(alternatives, "|")))
}

// Patterns of classified sentences. The order and the classes of the words decide, not the words.
var (
	closed = classPattern(
		// The program is closed; all positions have been filled; registration has been closed.
		`(^|[^Pf])D-{0,4}[ops]-{0,6}A?b~{0,3}([cjH]|F($|[^opesh]))`, `[eyrl]-{0,6}b~{0,3}(c|F($|[^opesh]))`,
		`sb~{0,2}F($|[^opesh])`,
		// The deadline for applications was May 4.
		`k[^|zq]{0,3}[ey][^|zq]{0,3}c`, `ek[^|zq]{0,2}c`,
		// New people cannot apply.
		`th~{0,2}(I|nI)~{0,2}[ye](u|\||$)`,
		// The program ended; the site will close; application period ended; Position closed;
		// Program status: closed; closed to new applicants.
		`(^|[^Pf])D-{0,3}([op]c|[op]-{0,4}H|o-{0,3}K([_Pf|]|$))`, `[erl]_?c`,
		`(^|\|)([_tD]?[ep]_?[cj]|s[cj])(\||$)`, `[eoplr]_?\|[cF](\||$)`, `c(_t?|t)e`, `c_th`,
		// We're full; we have shut down; we discontinued the program; we have paused new
		// applications; we have enough drivers.
		`W~{0,4}(H|F($|[^opesh]))`, `W~{0,4}c[D_]{0,3}o`, `[Wob]~{0,3}c[_Dt]{0,3}[ear]`,
		`W~{0,3}E[^|zQ]{0,3}[he]`, `(^|\|)_b~?H`, `bb~?H`, `T`,
		// We no longer accept applications; we are not accepting new sellers; not hiring;
		// n'acceptons plus.
		`(N~{0,3}a|naN)[^|zQ]{0,4}[ehy]`, `[n0I][~nN0]{0,4}a[^|zQ]{0,2}(t[^|z]{0,2}[eh]|e)`, `[nN0I]~{0,4}r`,
		`N~{0,2}OD_{0,2}o`,
		// Applications are not accepted; accounts can no longer be created.
		`e-{0,4}[nN][~nN]{0,3}a`, `h-{0,3}N~{0,3}a`,
		// No openings; plus de places; we do not have any openings; no open positions.
		`([N0][tuv_]{0,2}|n[bt]{1,2}[uvV_]{0,2})V?s($|[|vVuPQCGj]|b~{0,2}[vV])`,
		`0_?t?p($|[|vVuP_]|n?b~?[jvV])`, `0[t_]{0,2}eb~{0,2}[av]`, `sbDj`, `W~{0,3}j[Dv]{0,2}s`,
		// You can no longer apply; you cannot register right now; registering is no longer
		// possible; applications are not open; the service is not available in Canada.
		`N(v_{0,2}|_)?y`, `I[D_]{0,2}y_?u`, `[eor]-{0,3}N~{0,2}[vV]`, `[oe]nvN`, `[er]~{0,2}n[~nN]{0,2}[vV]`,
		`[oW]-{0,3}n[~n]{0,2}V[~t]{0,2}[ehC]`, `W~?N~?v`, `[eor]nb?N~?[vV]`,
		`((^|\|)|D-{0,3})p-{0,6}N~{0,3}[vV]`, `(^|[^Pf])D-{0,3}p-{0,3}n[~n]{0,2}N?~?[vV]`,
		`(^|[^Pf])D-{0,3}o-{0,3}n[~n]{0,3}[vV](~{0,3}C|\||$)`,
		// Applications will reopen; applications open soon.
		`[el][^|zqQnN0]{0,4}(R|A~{0,2}V)`, `(R|A~{0,2}V)-{0,2}[el]`)
	open = classPattern(
		`e[^zqQnN0A]*b~{0,2}V`, `(^|\|)[De_]{0,2}e[_u]{0,2}V(\||$)`, `(^|[^0t])e-{0,4}b~{1,2}a`, `d~{0,3}V`,
		`W~{0,4}[ar]($|[^c])`, `(^|\|)u[ar]`, `y[^|nN]{0,4}Y`, `L[^|l]*(\||$)`, `([^0nNtz]|^)Vs`)
	invitation = classPattern(`(^|\|)y`)
	partial    = classPattern(`[eh]fD*(_|$)|[ar][_teh]{0,3}m`)
	noWaitlist = classPattern(`[nN0][^|]{0,4}l`)
	placeName  = classPattern(`^[_D]?[CG]+$`)
)

var (
	word    = regexp.MustCompile(`[a-z0-9]+|[,;:()"]| - `)
	country = regexp.MustCompile(`\bUS\b|\bU\.S\.(A\.)?`) // unlike the pronoun
	amount  = regexp.MustCompile(`^(de )?\d`)
	year    = regexp.MustCompile(`^20\d\d$`)
	onDay   = regexp.MustCompile(`^(was|etait) (on |le |(midnight|minuit|\w+day|\w+di) ,? ?)*` +
		`(jan|feb|fe?v|mar|apr|avr|may|mai|jui?n|jul|aug|aou|sep|oct|nov|dec|\d)`)
	peopleEnd = regexp.MustCompile(`...(ers|ors|ists|eurs|istes|rices)$`)
)

// classify returns the classes of the words of a sentence, see lexicon.
func classify(sentence string) string {
	folded := fold(country.ReplaceAllString(sentence, "USA"))
	words := word.FindAllString(strings.ReplaceAll(folded, "n't", " not"), -1)
	classes := make([]byte, 0, len(words))
	for clause := 0; len(words) > 0; {
		class, n := lookUp(words)
		if class == 'b' && bytes.IndexByte(classes[clause:], 'k') >= 0 && onDay.MatchString(strings.Join(words, " ")) {
			class = 'c'
		}
		words = words[n:]
		last := byte('|') // word that is not an adverb
		if before := bytes.TrimRight(classes, "_ut"); len(before) > 0 {
			last = before[len(before)-1]
		}
		ends := len(words) == 0 || lexicon[words[0]] == '|'
		switch {
		case class == '|':
			clause = len(classes) + 1
		case class == '+' && (bytes.IndexByte(classes[clause:], 'n') >= 0 ||
			len(classes) == clause && !amount.MatchString(strings.Join(words, " "))):
			class = 'N'
		case class == '!' && (last == 'b' || ends && (last == 'e' || last == 'p')):
			class = 'c'
		case class == '?' && last == 'b':
			class = 'F'
		case strings.IndexByte("+!?", class) >= 0:
			class = '_'
		}
		classes = append(classes, class)
	}
	return string(classes)
}

// lookUp returns the class of the longest phrase of the lexicon that words start with, and its
// number of words.
func lookUp(words []string) (class byte, n int) {
	for n := min(phraseLength[words[0]], len(words)); n > 0; n-- {
		if class, ok := lexicon[strings.Join(words[:n], " ")]; ok {
			return class, n
		}
	}
	switch {
	case year.MatchString(words[0]):
		return 'Y', 1
	case peopleEnd.MatchString(words[0]):
		return 'h', 1
	}
	return '_', 1
}
