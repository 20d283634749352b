package pagetext

import (
	"fmt"
	"strings"
)

// phraseLength has the number of words of the longest phrase of the lexicon by its first word.
var phraseLength = func() map[string]int {
	all := map[string]int{}
	for phrase := range lexicon {
		first, _, _ := strings.Cut(phrase, " ")
		all[first] = max(all[first], strings.Count(phrase, " ")+1)
	}
	return all
}()

// lexicon has the class of each word that matters to closed pages, in lower case and without
// accents. An underscore stands for a space, and + for the endings of a plural or a French
// participle. Any other word has the class "_", a year "Y", and people by their trade "h".
var lexicon = func() map[string]byte {
	all := map[string]byte{}
	for class, words := range map[byte]string{
		// we
		'W': `we nous c`,
		// a determiner: the words after it name something of this page
		'D': `this the our all every ce cet cette ces le la l les notre nos au du tout toute tous toutes`,
		// the program
		'o': `survey_community survey_panel program+ programme+ platform+ plateforme+ service+ site+ website+ app
			marketplace panel+ pool project+ projet+ study etude call appel company organization business entreprise
			community network reseau team equipe roster books form formulaire nombre_maximal maximum_number`,
		// one position
		'p': `job position role posting listing vacancy gig requisition opportunity offre annonce emploi mission
			poste ad`,
		// positions, in plural
		's': `jobs positions roles opening+ vacancies spot spots slot+ seat+ place+ opportunities postes
			offres_d_emploi`,
		// ways in
		'e': `application+ registration+ account_creation creation_de_compte applying signup+ sign_up+ enrollment+
			enrolment+ recruitment intake submission+ admission+ doors candidature+ inscription+ recrutement+
			embauche+ adhesion+ demande+ enrollments`,
		// a waiting list
		'l': `waitlist+ waiting_list+ wait_list+ liste_d_attente listes_d_attente`,
		// to apply
		'y': `apply register join sign_up_for enroll postuler postulez s_inscrire inscrire inscrivez candidater`,
		// people
		'h': `people user+ utilisateur+ accounts personne personnes membre+ responses reponses candidat+ candidate+ participant+
			applicant+ client+ freelance+ contributeur+ testeur+ traducteur+ chauffeur+ vendeur+ livreur+ partner+
			partenaires host+ staff talent`,
		// to be
		'b': `is are was were be been being has have had s ve re est sont ete etait etaient a_ete ont avons sommes`,
		// closed
		'c': `closed discontinued ended retired sunset suspended on_hold paused cancelled canceled terminated expired
			wound_down wind_down winding_down disabled deactivated inactive off passed decided_to_close
			decided_to_discontinue decided_to_end decided_to_suspend taking_a_break_from pausing suspending stopping
			discontinuing suspendons interrompons arretons cessons come_to_an_end came_to_an_end removed halted
			frozen freeze wrapped_up over concluded on_pause on_hiatus unavailable ferme_aux ferme_a clos fermee+
			terminee+ suspendu+ expiree+ annulee+ arretee+ en_pause desactive+ aboli+ depasse+ passee+ retiree+
			cloturee+ interrompu+ supprimee+ mis_fin`,
		// closed, or a verb in the present: classify decides
		'!': `ferme fermes termine termines expire expires annule annules arrete arretes passes retires cloture
			supprime close closes fini finis finie finished`,
		// full, if it follows a verb
		'?': `complete completes reached atteint atteinte`,
		// no longer, or more: classify decides
		'+': `plus`,
		// the end of a clause
		'|': `, ; : ( ) " _-_ but mais although though while however cependant toutefois`,
		// filled, of positions
		'j': `filled taken gone comble+ pourvu+ prise+ pris`,
		// full
		'F': `full fully_staffed fully_booked at_capacity complet complets affiche_complet reached_capacity
			reached_our_capacity reached_maximum_capacity reached_full_capacity atteint_notre_capacite
			atteint_sa_capacite capacite_maximale`,
		// a deadline, which has passed if it was on a day
		'k': `deadline+ closing_date date_limite date_de_cloture date_butoir`,
		// ended, also without a verb before it
		'H': `shut_down shutdown closed_down a_ferme a_expire a_pris_fin prend_fin`,
		// the whole business ended
		'T': `shutting_down permanently_closed out_of_business ceased_operations ceased_all_operations
			closed_its_doors closed_our_doors closed_their_doors closing_its_doors closing_our_doors closing_down
			closing_permanently ceased_trading cease_operations no_longer_operating no_longer_operates
			no_longer_in_business no_longer_in_operation suspended_operations stopped_operating decided_to_shut_down
			decision_to_shut_down decision_to_close cessera_ses_activites ferme_ses_portes ferme_nos_portes
			ferment_leurs_portes cesse_ses_activites cesse_ses_operations cesse_nos_activites cessons_nos_activites
			cesse_toute_activite ferme_definitivement definitivement_ferme inscriptions_completes
			candidatures_completes fermes_definitivement fermee_definitivement n_exerce_plus`,
		// about to end
		'K': `closing ending will_close fermera cessera va_fermer prendra_fin`,
		// to open later
		'R': `will_resume resuming reprendra reprendront reopen reopens reopening open_soon opens_soon
			opening_soon rouvrira rouvriront rouvrir reouvriront reouvrira ouvriront_bientot`,
		// available
		'v': `available active running offered operating operational live exist exists operate in_operation
			in_business possible+ supported maintained left remaining found en_ligne disponible+ actif active+ actifs
			offert+ existe existent restant+ restante+ vacant+ vacante+ libre+ a_pourvoir d_actualite valide+ valid
			accessible+`,
		// open
		'V': `open opened ouvert+ underway under_way en_cours`,
		// to accept
		'a': `accept accepting accepts accepted taking take taking_on take_on bringing_on adding seeking looking_for
			create creating created considering processing need needs besoin accepter acceptons accepte+ prendre
			prenons prend cherchons cherche chercher recherchons recherche a_la_recherche admettons`,
		// to recruit
		'r': `hiring hire recruiting recruit recruits recruited onboarding onboard enrolling registering recruter
			recrutons recrute embauchons embaucher`,
		// new, more
		't': `new any more further additional other nouveau nouveaux nouvelle nouvelles autres`,
		// now
		'u': `now at_this_time right_now at_the_moment at_present for_now for_the_moment this_time pour_le_moment
			en_ce_moment pour_l_instant a_l_heure_actuelle currently still presently actively actuellement
			presentement maintenant toujours`,
		// the future
		'A': `will ll`,
		// from
		'f': `from`,
		// enough
		'E': `enough assez suffisamment`,
		// a preposition: what follows is not the subject
		'P': `in of with at on dans sur avec chez`,
		// not
		'n': `not ne n pas unable`,
		// no
		'0': `0 no aucun aucune pas_de pas_d`,
		// cannot
		'I': `cannot ca_not impossible_de not_possible_to pouvez_pas peuvent_pas unable_to`,
		// to offer
		'O': `offer offering able_to_offer offrons`,
		// a channel
		'm': `by via through par`,
		// no longer
		'N': `no_longer stopped ceased cesse anymore`,
		// the start of a clause about something else
		'z': `that which who whose qui que qu dont never jamais`,
		// a condition, which holds for what follows in the sentence
		'q': `if when whenever unless si lorsque lorsqu quand des_que une_fois once in_case as_soon_as`,
		// possibly, or at another time
		'Q': `may might could would should whether until before after must doit peut peuvent pouvons pourrait
			pourrions reserve avant apres jusqu_a tant_que why how pourquoi reserves`,
		// words that look like those of another class
		'_': `orders others offers answers papers vouchers numbers letters visitors computers errors customers
			careers employers servers covers winners of_course your_interest votre_interet until_further_notice
			jusqu_a_nouvel_ordre can_apply_again full_time full_service temps_complet not_only non_seulement once_again
			no_matter no_fee no_fees`,
		// the author of a testimonial
		'i': `i my me je j mon ma`,
		// Canada, or everywhere
		'C': `canada canadian+ canadien canadiens canadienne canadiennes worldwide everywhere partout all_countries
			all_regions`,
		// except
		'X': `outside exterieur hors except excluding sauf`,
		// another country, or a part of Canada
		'G': `usa u_s uk u_k american+ united_states united_kingdom america britain british england scotland wales
			ireland irish europe european+ eu india indian+ australia australian+ new_zealand france germany german
			spain spanish italy italian mexico mexican brazil brazilian japan japanese china chinese korea
			philippines filipino nigeria kenya south_africa africa asia asian latin_america poland portugal
			netherlands belgium switzerland sweden norway denmark finland austria greece turkey ukraine russia israel
			egypt morocco pakistan bangladesh indonesia vietnam thailand malaysia singapore hong_kong taiwan
			argentina colombia chile peru jamaica uae dubai saudi_arabia french francais+ romania ghana ethiopia czech hungary qatar
			iran iraq sri_lanka nepal cuba venezuela ecuador bolivia roumanie ghana etats_unis royaume_uni americain+
			americaine+ britannique+ angleterre irlande europeen+ europeenne+ inde australie allemagne allemand+
			espagne italie mexique bresil japon chine afrique asie belgique belge+ suisse+ maroc algerie tunisie
			senegal cote_d_ivoire haiti luxembourg quebec quebecois ontario alberta british_columbia
			colombie_britannique manitoba saskatchewan nova_scotia nouvelle_ecosse new_brunswick nouveau_brunswick
			newfoundland terre_neuve pei prince_edward_island yukon nunavut toronto montreal vancouver calgary
			edmonton ottawa winnipeg laval gatineau hamilton halifax victoria mississauga brampton london sherbrooke
			saskatoon regina longueuil new_york chicago boston seattle houston dallas austin atlanta philadelphia
			los_angeles san_francisco california texas florida paris lyon sydney your_area your_region your_city
			votre_region votre_ville some_regions some_cities certain_regions certaines_regions`,
		// another thing, program or round
		'x': `referral+ refer affiliate+ affiliation ambassador+ ambassadeur+ ambassadrice+ beta alpha bounty bonus
			promo promotion+ promotional contest+ concours giveaway+ sweepstakes raffle tirage scholarship+ bourse+
			internship+ intern+ webinar+ event+ evenement+ conference+ workshop+ atelier+ course+ cours comment+
			commentaire+ session old older former legacy previous previously ancien ancienne anciens anciennes
			precedent+ precedente+ earlier first phase premier premiere pilot pilote reward+ recompense+ loyalty
			fidelite parrainage partner_program+ partnership+ partenariat mentor mentorship mentorat survey+ sondage+
			account compte+ your votre vos newsletter+ infolettre payout+ payment+ paiement+ pension insurance
			assurance benefits plan+ early_access acces_anticipe store shop office bureau+ magasin+ warehouse
			entrepot branch succursale restaurant paper papier incomplete incompletes late en_retard by_email by_mail
			by_post by_phone by_fax by_telephone par_courriel par_telephone la_poste whatsapp telegram facebook
			discord third_parties employee+ employes salaries minors mineurs without sans version+ desktop ticket+
			billet+ thread topic sujet forum poll vote voting chat support warranty grant subvention cookies
			subscription abonnement trial essai download coupon discount sale award+ prix founder+ invite+
			invitation+ webinaire+ agencies agences agency windows android ios recommandation recommandations fund
			fonds summit hackathon challenge defi api feature+ fonctionnalite+`,
		// opening hours
		'w': `monday+ tuesday+ wednesday+ thursday+ friday+ saturday+ sunday+ weekend+ holiday+ christmas easter
			lunch overnight night lundi+ mardi+ mercredi+ jeudi+ vendredi+ samedi+ dimanche+ fin_de_semaine
			fins_de_semaine week_end+ feries ferie vacances fetes midi noel nuit pm am h today aujourd_hui
			maintenance renovation+ lunchtime evenings weekdays new_year`,
		// a round of a program
		'd': `round ronde cohort cohorte edition`,
		// a later round
		'Y': `next upcoming fall autumn winter spring summer prochain prochaine automne hiver printemps `,
		// an invitation to apply
		'L': `can_apply can_still_apply may_apply can_register can_still_register can_join pouvez_postuler
			peuvent_postuler pouvez_vous_inscrire peuvent_s_inscrire pouvez_encore_postuler`,
	} {
		for word := range strings.FieldsSeq(words) {
			stem, inflected := strings.CutSuffix(word, "+")
			endings := []string{""}
			if inflected {
				endings = []string{"", "s", "e", "es"}
			}
			for _, ending := range endings {
				phrase := strings.ReplaceAll(stem, "_", " ") + ending
				if other, ok := all[phrase]; ok && other != class {
					panic(fmt.Sprintf("%q is in the classes %c and %c", phrase, other, class))
				}
				all[phrase] = class
			}
		}
	}
	return all
}()
