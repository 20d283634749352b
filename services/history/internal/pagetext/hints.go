package pagetext

import (
	"regexp"
	"slices"
	"strings"
)

// hint selects sentences, in lower case and without accents, that may support a fact: those that
// match a pattern of any and not unless.
type hint struct {
	fact        string
	stems       []string // one is in each sentence that any matches; they save most of the matching
	any, unless *regexp.Regexp
}

func (h hint) supports(folded string) bool {
	return containsOneOf(folded, h.stems) && h.any.MatchString(folded) && !h.unless.MatchString(folded)
}

func containsOneOf(text string, stems []string) bool {
	return slices.ContainsFunc(stems, func(stem string) bool { return strings.Contains(text, stem) })
}

// hints are in the order of facts, with English patterns before French ones. A word in capitals
// stands for a class.
var hints = []hint{
	{"countryEligibility",
		strings.Fields(`resid citi national countr pays live living located based domicil available open limited only reserve accept recruit hire support welcom except exclud outside void hors sauf work habit viv situe disponible offert ouvert accessible travail`), hintPattern(
			`\b(residents?|citizens?|nationals) (of|in) (the )?PLACE\b`,
			`\bmust (be )?(located|based|live|living|reside|residing) in\b`,
			`\b(living|located|based|reside|residing|resident|live|domiciled) (in|within) (the )?(PLACE|countries|country)\b`,
			`\b(open|available|limited|restricted|only|reserved) (to|in|for) (all )?(residents|citizens|people|applicants|anyone|contributors|workers|freelancers|(the )?PLACE|\d+ countries)\b`,
			`\b(accept|recruit|hire|support|welcome)\w* (\w+ ){0,3}(from|in) (the )?(PLACE|all|any|these|\d+)\b`,
			`\b(accepted|eligible|supported|any|all|following) countr(y|ies)\b`,
			`\b(except|excluding|outside( of)?|void in) (for )?(the )?PLACE\b`,
			`\b(authori[sz]ed|entitled|eligible|right|permit|allowed) to (legally )?work in\b`,
			`\bwork (permit|authori[sz]ation)\b`,
			`\b(residents?|citoyens?) (permanents? )?(du|de la|de|des|au|en|canadiens?|francais|quebecois)\b`,
			`\b(habiter|habitez|vivre|vivez|residez|resider|residant|domicilie\w*|situee?s?) (au|aux|en|dans)\b`,
			`\b(disponible|offert|ouvert|accessible|reserve)\w* (uniquement |seulement )?(au|aux|en|dans) (residents|personnes|candidats|PAYS)`, `\b(sauf|a l'exception d\w+|hors)( au| le| la| du)? PAYS`,
			`\bpays (admissibles|eligibles|acceptes)`, `\b(autorise\w*|droit( de)?|permis( de)?) (a |de )?travail`,
		), hintPattern(`privacy|personal (data|information)|\b(we|we're|company|business|team|office|server|data centre|data center)\b.* (based|located|headquarter)|headquarter|shipping|deliver|\blaws?\b|jurisdiction`,
			`\b(survey|study|clients?|customers?)\b.*\b(asked|who|residing|residant)`,
			`\bclients? resid|confidentialite|renseignements personnels|\bnous sommes\b.*(etabli|base|situe)|livraison|entreprise (etablie|basee|situee)`)},

	{"remote", strings.Fields(`home house couch room remote online virtual anywhere site office warehouse studio lab store hybrid teletravail distance domicile maison depuis place presentiel hybride`), hintPattern(
		`\bwork(ing|s)? (from|at) home\b`, `\bfrom (the comfort of )?(your|their) (own )?(home|house|living room|couch)\b`,
		`\b(fully|100 ?%|completely|entirely) (remote|online|virtual)`,
		`\bwork(ing)? (remotely|anywhere|from anywhere)\b`,
		`\bremote(ly)?[ -](work|position|role|job|opportunity|contract|based|team|only|first)\b`,
		`\b(position|role|job|work|location|opportunity) ?(is|:) ?(fully )?remote`,
		`^remote( \(.*\)| only|,.*)?\.?$`, `\bon[- ]?site\b`, `\bin our .*(office|warehouse|studio|lab|store)\b`,
		`\b(hybrid (work|role|position|schedule)|from anywhere in the world)\b`,
		`\bteletravail`, `\b(travail\w*|poste|emploi|mission|entierement|100 ?%) (\w+ )?a distance`,
		`\btravail\w* (depuis|de|a partir de|a) (chez vous|votre domicile|la maison|domicile|n'importe ou)`,
		`\bsur place\b`, `\bpresentiel\b|\bmode hybride`,
	), hintPattern(`remote (control|desktop|access|areas?|communit|sensing|villages?|islands?)`,
		`on-?site (parking|support|search)|livraison|manger sur place|soins a domicile`)},

	{"degreeRequired", strings.Fields(`degree diplom bachelor master phd ged baccalaureat licence maitrise bac`),
		hintPattern(
			`\b(no|without a|don't need a|not need a) (\w+ )?(degree|diploma)`,
			`\b(degree|diploma|bachelor's|master's|phd|ged)\b.*(required|necessary|needed|preferred|or equivalent|a must|a plus)`,
			`\b(must|should|need to) (have|hold|possess) .*(degree|diploma|bachelor|master's)`,
			`\b(bachelor|master|associate)('s)? degree (in|or)\b`, `\b(minimum|at least) .*(degree|diploma)`,
			`\brequires? (an? |any )?([^ ]+ ){0,2}(degree|diploma)`,
			`\b(aucun|sans|pas de) diplome`, `\bdiplome .*(requis|exige|necessaire|obligatoire|demande|un atout)`,
			`\b(titulaire|detenir|posseder|avoir|detenteur) .*(diplome|baccalaureat|licence|maitrise)`, `\bbac ?\+ ?\d`,
		), hintPattern(`degrees (celsius|fahrenheit)|\b(high|some|certain) degree of|degree of|earn (a|your) degree|scholarship|plus .* que? .*diplome|plus .* qu'a des diplomes`)},

	{"experienceRequired", strings.Fields(`experience beginner newcomer debutant`), hintPattern(
		`\b(no|any|without) (\w+ ){0,2}experience\b`,
		`\bexperience (\w+ ){0,6}?(is |are )?(not |un)?(required|needed|necessary|preferred|a must|a plus)`,
		`\b(\d+\+?|one|two|three|five|several) (years?|months?)('| of| in)? .*experience`,
		`\b(prior|previous|proven|relevant) (\w+ ){0,3}experience`, `\brequires? (\w+ ){0,4}experience`,
		`\b(beginners?|newcomers) (are )?(welcome|accepted)|\bopen to beginners`,
		`\b(aucune|sans|pas besoin d'|pas d') ?experience`,
		`\bexperience .*(requise|necessaire|exigee|prealable|demandee|souhaitee|un atout)`,
		`\b(ans?|annees?|mois) d'experience`, `\bdebutant\w* (accepte|bienvenu|admis)`,
	), hintPattern(`\b(user|customer|client|guest|browsing) experience|experience (utilisateur|client)|\b(we|our|us|team|nous|notre|nos) .*(years|ans|annees) .*experience|rate their experience`)},

	{"flexibleSchedule", strings.Fields(`hours schedul shift pace time when often much little horaire rythme quand heures`), hintPattern(
		`\bflexible (working |work )?(hours|schedule|scheduling|shifts|time)`,
		`\b(set|choose|pick|make|create|decide) (your|their) own (\w+ )?(hours|schedule|shifts|time)`,
		`\b(whenever|when) (you want|you like|it suits you|you have time)`,
		`\b(on|at) your own (time|schedule|pace)`,
		`\bno (set|fixed|minimum|required) (\w+ )?(hours|schedule|shifts)|\bno minimum (number of )?hours`,
		`\bas (much|little|often) (or as little )?as you (want|like)`,
		`\b(minimum of|at least|minimum) \d+ hours`,
		`\b(shifts?|schedules?|hours) (is|are) (fixed|flexible|set)|\bfixed (shifts?|schedules?|hours)`,
		`\bhoraires? (\w+ )?(flexibles?|libres?|fixes?|variables?)`,
		`\b(choisissez|fixez|definissez|gerez|organisez) vos (propres )?(horaires|heures)`,
		`\bquand vous (voulez|le voulez|le souhaitez|avez le temps)`, `\ba votre (propre )?rythme`,
		`\bminimum de \d+ heures|\d+ heures (minimum )?par semaine`,
	), hintPattern(`\b(office|opening|business|store|support) hours|heures d'ouverture|\b(courses?|learn|study|apprenez|etudier)\b`)},

	{"pay", strings.Fields(`$ € £ ₹ ¢ usd cad eur gbp aud inr dollar cents`),
		hintPattern(`AMOUNT.*UNIT`, `UNIT.*AMOUNT`,
			`\b(earn|earnings|paid|salary|wages?|gagne[rz]?|salaire|remunere?)\b.*AMOUNT.*\b(day|week|month|jour|semaine|mois)\b`),
		hintPattern(`\b(subscri\w*|billed|plans?|pricing|prices?|costs?|fees?|donat\w+|raised|revenues?|million|billion|insurance|discount|save|saving|refund|grant|fine)\b`,
			`\b(abonnement|prix|coute|frais|dons?|subvention|millions?|milliards?|rabais|assurance|remise|economisez|chiffre d'affaires)\b`,
			`\b(clients?|customers?|guests?|you|students?) (will |must )?(pay|paient?)\b|\bvous (payez|paierez)\b|^(hire|book|rent|buy|order|louez|reservez|achetez)\b`)},

	{"languages", strings.Split(hintClasses["LANGUAGE"]+"|"+hintClasses["LANGUE"], "|"), hintPattern(
		`\b(fluen\w+|proficien\w+|native|bilingual|conversational|written|spoken|command of|excellent|good|strong|advanced) (\w+ ){0,3}LANGUAGE\b`, `\bLANGUAGE( \w+){0,3} (speakers?|fluency|proficiency|skills|required|level|native)`,
		`\bLANGUAGE level\b`, `\b(speak|write|read|understand)s? (\w+ ){0,3}LANGUAGE\b`,
		`\b(maitris\w+|parle[rz]?|bilingue|couramment|langue maternelle|connaissance|niveau)( [^ ]+){0,4} (l'|d'|de l')?LANGUE`, `\bLANGUE( [^ ]+){0,3} (courant|requis|exige|obligatoire|langue maternelle|natif|parle|ecrit)`,
	), hintPattern(`\bavailable in|\blearn|translate this|our (support|customer)|\bsite\b|\bapprene[zr]|\bcours\b|\bcourses?\b|\b(not|may) .*\ban? .*native`)},

	{"applicationStatus",
		strings.Fields(`appl registr sign enrol recruit hiring accept wait candidatures inscriptions recrut attente`), hintPattern(
			`\b(applications?|registrations?|sign-?ups?|enroll?ments?|recruitment)( \w+){0,6} (is|are)( now| currently| still)? (open|closed|paused)`, `\b(now|currently|still|always) (accepting|hiring|recruiting)|\bno longer accepting|\bnot (currently )?(accepting (new )?applica|hiring|recruiting)`,
			`\bwait(ing)? ?-?list\b`, `\b(we're|we are) (hiring|recruiting)`,
			`\b(candidatures|inscriptions)( [^ ]+){0,5} (sont )?(ouvertes|closes|fermees|suspendues)`,
			`\bnous recrutons|\bne recrutons (pas|plus)`, `\bliste d'attente`,
			`\bn'acceptons (plus|pas) (de )?(nouvelles )?candidatures|acceptons (actuellement )?(de nouvelles|les|vos) candidatures`,
		), hintPattern(`\b(comments|webinar|commentaires|webinaire)\b`)},

	{"requirements", strings.Fields(`18 19 21 age internet check licen valid government android ios windows mac phone computer headset headphones insurance paypal test exam quiz assessment majeur permis piece verification ordinateur`), hintPattern(
		`\bmust be (at least |over |aged )?(18|19|21)|\b(at least|minimum|over|above) (18|19|21)\b|\b(18|19|21)( years)? (of age|old|or (older|over|above))|\b18\+|\bage of (18|majority)|\bminimum age\b.*\d`,
		`\b(reliable|stable|high[- ]speed|fast|good) .*internet`, `\bbackground check`,
		`\b(valid|government)[- ]?(issued )?.*\b(id|licen[cs]e|identification|passport)\b`,
		`\bdriver'?s licen[cs]e`, `\b(proof of insurance|headset|headphones)\b`,
		`\b(need|requires?|must have|valid) (an? |your own )?(\w+ )?paypal account`,
		`\b(android|ios|windows|mac ?os|smartphone|iphone|computer)\b.*\b(required|needed|or later|or newer|running|version)\b`, `\b(qualification|entry|admission|skills?|assessment) (test|exam|quiz)`, `\bpass (a|an|the|our) (\w+ ){0,3}(test|exam|quiz|assessment)`,
		`\b(avoir|age d'|au moins|minimum|plus de) (\w+ ){0,2}(18|19|21) ans`, `\bmajeure?s?\b`,
		`\b(connexion|acces) (\w+ ){0,3}internet`, `\bpermis de conduire`,
		`\bpiece d'identite|\bverification d\w+ antecedents|\b(avoir|disposer|posseder|besoin) (\w+ |d')*compte paypal|\b(test|examen) (de qualification|d'entree|d'admission|d'evaluation)`,
		`\bordinateur .*(requis|necessaire|obligatoire|exige)`,
	), hintPattern(`\b(not need|no need|not required|cookies|guests?|travell?ers|children|voyageurs|to book|your browser|offices?|download the app|renters?)\b`)},

	{"riskIndicators", strings.Fields(`fee cost deposit kit pay buy purchase minimum threshold account guarantee commission take keep frais seuil montant formation essai periode preavis garanti test`), hintPattern(
		`\b(sign-?up|registration|application|enroll?ment|training|starter|membership|activation|joining|onboarding) (fee|cost|deposit|kit)`, `\b(pay|deposit|fee|buy|purchase)\b.*\b(to join|to start|to apply|to register|upfront|before you (start|can))`,
		`\bminimum (payout|withdrawal|cash-?out|balance)|\b(payout|withdrawal|payment) (threshold|minimum)`,
		`\baccounts? (may|can|will) be (suspended|terminated|deactivated|closed)`,
		`\bnot guaranteed|\bno guarantee`,
		`\bunpaid\b.*(training|test|trial|assessment)|\b(training|test|trial|assessment)s? (is|are) unpaid`,
		`\b(commission|service fee)s? (of|:)|\bcommission ?: ?\d|\bwe (take|keep) (a )?\d+ ?%|\bcharges? (hosts|sellers|drivers|contributors|freelancers|you) .*(fee|commission|%)`,
		`\bfrais (d'inscription|d'adhesion|de dossier|de formation)`,
		`\b(seuil|montant|minimum) (minimum |minimal )?de (paiement|retrait|versement)`,
		`\b(formation|test|essai|periode)\b.*non (remunere|paye)`,
		`\bcommission de \d|\bsans preavis|\bpas garanti`,
	), hintPattern(`\b(no|never|without|zero|aucuns?|sans|pas de|jamais) ([^ ]+ ){0,6}(fees?|costs?|frais|deposit)|\bfree to join|\bearn (a )?commission|\b(guest|customer|buyer|client)s?\b`)},
}

// hintPattern joins alternatives into a regular expression for folded text. In it, NAME stands for
// the value of a class.
func hintPattern(alternatives ...string) *regexp.Regexp {
	text := strings.Join(alternatives, "|")
	for name, value := range hintClasses {
		text = strings.ReplaceAll(text, name, "("+value+")")
	}
	return regexp.MustCompile(text)
}

var hintClasses = map[string]string{
	"AMOUNT": `([a-z]{0,3}\$|£|€|₹|\b(usd|cad|eur|gbp|aud|inr)) ?\d[\d,. ]*k?|\d[\d,. ]*k? ?(\$|€|£|¢|usd\b|cad\b|eur\b|gbp\b|aud\b|dollars?\b|euros?\b|cents?\b)`,
	"UNIT": `(/|\b(per|an?|each|every|for each|for every|par|pour chaque|chaque|de)\b|\b[ld]')( ?(completed|finished|[\d-]+minute|audio|user|test|submitted))* ?` +
		`(hour|hr|heure|h\b|year|annum|annee|an\b|task|tache|hit\b|survey|sondage|minute|min\b|word|mot\b|page|test\b|image|photo|article|delivery|trip|course\b|interview|study|video)` +
		`|\b(hourly|annually|yearly|annual salary|horaire|annuel)|\b(sondage|test|tache|heure) rapporte`,
	"PLACE": `canada|u\.?s\.?a?|united states|u\.?k|united kingdom|ireland|australia|new zealand|india|philippines|nigeria|kenya|south africa|germany|france|europe\w*|eu|quebec|ontario|british columbia|alberta|` +
		`mexico|brazil|spain|italy|netherlands|north america`,
	"PAYS":     `canada|quebec|france|belgique|suisse|luxembourg|etats-unis|royaume-uni|ontario|europe|pays`,
	"LANGUAGE": `english|french|spanish|german|italian|portuguese|japanese|chinese|mandarin|korean|arabic|hindi|dutch|swedish|polish|russian|khmer|vietnamese|thai`,
	"LANGUE":   `francais|anglais|espagnol|allemand|italien|portugais|japonais|chinois|arabe|neerlandais`,
}
