package pagetext

import (
	"regexp"
	"strings"
)

const (
	maxMatched = 200     // characters of a matched sentence
	maxScan    = 1 << 18 // bytes of text that patterns are matched against
	parkedText = 5000    // bytes of text below which a page may be parked or a page for missing pages

	maxSentence = 1000 // bytes of a sentence that may say that a page is closed
)

// pattern joins alternatives into a regular expression for folded text. In it, NAME stands for the value of a class.
func pattern(classes map[string]string, alternatives ...string) *regexp.Regexp {
	text := strings.Join(alternatives, "|")
	for name, value := range classes {
		text = strings.ReplaceAll(text, name, "("+value+")")
	}
	return regexp.MustCompile(text)
}

var closedClasses = map[string]string{
	"OFFER":  `program(me)?s?|platform|service|site|website|app|marketplace|panel|beta|project|job|position|role|vacancy|opportunity|posting|listing|campaign|call`,
	"ENTRY":  `applications?|registrations?|sign-?ups?|enroll?ments?|recruitment|recruiting|hiring|onboarding|intake|submissions|admissions|waitlist`,
	"PEOPLE": `applica\w+|sign-?ups?|registrations?|members|users|contributors|sellers|hosts|drivers|workers|freelancers|submissions|candidates|people|partners|\w+ists|\w+ers|\w+tors|clients`,
	"BE":     `(is|are|has|have|has been|have been|have now|has now)( now| currently| officially| permanently| temporarily| already)?`,
	"OVER":   `closed|discontinued|shut ?down|ended|retired|sunset|suspended|on hold|paused|filled|cancell?ed|terminated|expired|wound down|no longer (available|active|running|offered|operating|open|operational|live|exists?)`,
	"OFFRE":  `programme|plateforme|service|site|application|panel|projet|offre( d'emploi)?|poste|annonce|mission|appel( a candidatures)?|concours`,
	"ENTREE": `candidatures|inscriptions|recrutements?|adhesions|demandes`,
	"FINI":   `ferme|clos|termine|clotur|suspend|pourv|expire|annule|arrete|en pause|complet`,
}

var (
	// closed matches sentences that say that a program takes no more people.
	closed = pattern(closedClasses,
		`\b(this|the|our|your|that) ([^ ]+ ){0,3}OFFER( [^ ]+){0,4} BE OVER`,
		`\bENTRY( [^ ]+){0,6} BE (OVER|full)`, `^ENTRY (period )?(now )?closed\b`, `\bENTRY (period )?closed (on|in|at)\b`,
		`\b(no longer|not|n't|stopped|paused|ceased)( currently| now| presently| actively)? (accepting|taking|onboarding|hiring|recruiting|enroll?ing|open (to|for))( any| new| more| further| additional| for)* PEOPLE`,
		`\b(not|n't|no longer)( currently| actively)? (hiring|recruiting)( new .*)?( at| right| for|[.!]|$)`, `\bno longer accept (any |new )*PEOPLE`,
		`\b(we|has|have|we've)( now| officially| permanently)? (shut ?down|closed (down|(our|its|their) doors)|gone out of business)`, `\bceased (all )?operations\b`,
		`\bshutting down\b`, `\b(is|are) (now )?permanently closed\b`, `\bout of business\b`,
		`\b(ce|cet|cette|le|la|notre|votre|l')( ?[^ ]+){0,2} ?OFFRE( [^ ]+){0,3} (est|sont|a ete|ont ete)( desormais| maintenant| actuellement| definitivement| deja)* FINI`,
		`\bENTREE( [^ ]+){0,5} (est|sont|ont ete)( desormais| maintenant| actuellement| temporairement)* FINI`, `^ENTREE (closes|fermees|terminees)`,
		`\bn'accept(ons|e) (plus|pas|actuellement pas|pour l'instant)( actuellement)? (de |d'|aucune? )(nouve(aux|lles) )?[a-z]+`,
		`\bne recrut(ons|e) (plus|pas)`, `\bOFFRE n'(est|existe) plus\b( (disponible|active?|en ligne|ouverte?|d'actualite))?`,
		`\b(a|avons) (cesse|mis fin|pris fin|ferme ses portes|ferme nos portes|definitivement ferme)`, `\bferme (definitivement )?ses portes`)
	closedStems = strings.Fields(`clos discontinu shut ended retired sunset suspend hold pause filled full cancel terminat expir wound longer not n't recrut stopped ceased business` +
		` ferm termin pourv annul arrete complet plus cesse fin accept`)
	// notClosed matches sentences about something else, or about a case that may not be.
	notClosed = regexp.MustCompile(`\?$|^(if|should|si)\b` +
		`|\b(if|once|when|until|unless|before|after|whether|may|might|could|would|lorsque?|quand|une fois que|tant que|jusqu'a ce que)\b[^,;]* (is|are|has|have|be|est|sont) [^,;]*(close|end|fill|expire|ferm|termin|pourv)` +
		`|\bclosed (on|every|during|over|for|between|from) (the )?(sun|mon|tue|wed|thu|fri|sat|week|holiday|public|christmas|easter|lunch|winter|summer|\d+ (to|and|pm|am))` +
		`|\b(fermee?s?|closes?) (le |les |du |pendant |durant |entre )(lundi|mardi|mercredi|jeudi|vendredi|samedi|dimanche|week|jours? feri|vacances|fetes|midi|\d)` +
		`|\bclosed (to|for) (residents|citizens|applicants (from|under|in)|people|minors|users (from|in))` +
		`|\b(not|n't|never|no longer) (been )?(closed|ended|suspended|cancell?ed)|\bn'(est|a|ont|sont) (pas|jamais) (ete )?(ferm|termin|clos)` +
		`|\b(by|via|through|par) (e-?mail|mail|post|fax|phone|courriel|telephone|la poste)|\b(available|offered|accepting [a-z ]+|disponible|candidatures?) (in|from|de la part|provenant) ` +
		`|\b(webinar|event|conference|workshop|contest|giveaway|course|comments?|webinaire|evenement|atelier|commentaires|session|old|former|previous|ancien(ne)?)\b`)
	// open matches sentences that say that a program takes people, which a page about an earlier round also has.
	open = pattern(closedClasses,
		`\bENTRY( [^ ]+){0,6} (is|are)( now| currently| still)? (open|being accepted)`, `\bENTRY (now )?open\b`, `(\b(is|are|we|and)|'re|^) (now|still|currently|always) (accepting|hiring|recruiting|taking|onboarding)`, `^now (hiring|recruiting|accepting)`,
		`\bapply (now )?for (the |our )?([^ ]+ )?20\d\d`, `\bapply (now )?for (the|our) (next|new|current)`, `\b(we are|we're) (hiring|recruiting|accepting|looking for)`,
		`\bENTREE( [^ ]+){0,6} (est|sont)( maintenant| actuellement| toujours)* ouvert`, `\bnous (recrutons|acceptons( actuellement)? (de|les|vos))\b`, `\bpostulez( maintenant| des)? pour`)
	openStems = strings.Fields(`open accept hiring recruit taking onboarding apply looking ouvert recrut postulez`)
	// parked matches short pages of domains without a site, and pages that say that there is no such page.
	parked = regexp.MustCompile(`\bdomain (name )?([^ ]+ )?(is|may be|might be|could be)( now)? (for sale|available for (sale|purchase)|parked)|\bbuy this domain\b` +
		`|\b(interested in|inquire about|offer (on|for)|get|own) this domain\b|\bdomain (name )?(has )?expired|\bparked (free|domain)\b|^domain( name)? for sale` +
		`|\b(nom de )?domaine ([^ ]+ )?(est|peut etre) (a vendre|en vente|expire|a expire)|\b(acheter|achetez) ce (nom de )?domaine|\bdomaine a vendre` +
		`|^(error )?404\b|^(oops[!,. ]*)?(the |this )?page (was |you('re| are) looking for )?(not found|(could not|couldn't|cannot|can't) be found|(no longer|does not|doesn't) exists?)` +
		`|^(oups[!,. ]*)?(la |cette )?page (demandee |que vous (re)?cherchez )?(est introuvable|introuvable|non trouvee|n'existe (pas|plus))`)
)

// Closed reports whether a page says that its program is closed, that its domain is for sale, or that there is no such page. It returns
// the sentence that says so.
func Closed(p Page) (matched string, ok bool) {
	text := p.Title + "\n" + p.Text[:min(len(p.Text), maxScan)]
	for start, end := range sentences(text) {
		if end-start > maxSentence {
			continue
		}
		sentence := fold(text[start:end])
		switch {
		case len(p.Text) < parkedText && parked.MatchString(sentence):
			return cut(text[start:end], maxMatched), true
		case containsOneOf(sentence, openStems) && open.MatchString(sentence):
			return "", false
		case !ok && containsOneOf(sentence, closedStems) && closed.MatchString(sentence) && !notClosed.MatchString(sentence):
			matched, ok = cut(text[start:end], maxMatched), true
		}
	}
	return matched, ok
}
