package api

import (
	"slices"
	"strings"
)

// codeList is a list of standard codes.
type codeList struct {
	what  string
	codes []string
	// for codes that people write by mistake, such as those of languages and domains, and former
	// ones
	meant map[string]string
}

var (
	// countries has the codes of ISO 3166-1, and XK, which the European Union and others use for
	// Kosovo.
	countries = codeList{"a country code of ISO 3166-1, two upper-case letters such as CA", strings.Fields(`AD AE AF AG AI AL AM AO AQ AR AS AT AU AW AX AZ BA BB BD BE BF BG BH BI BJ BL BM BN BO BQ BR BS BT BV
		BW BY BZ CA CC CD CF CG CH CI CK CL CM CN CO CR CU CV CW CX CY CZ DE DJ DK DM DO DZ EC EE EG EH ER ES ET FI FJ FK FM FO FR GA
		GB GD GE GF GG GH GI GL GM GN GP GQ GR GS GT GU GW GY HK HM HN HR HT HU ID IE IL IM IN IO IQ IR IS IT JE JM JO JP KE KG KH KI
		KM KN KP KR KW KY KZ LA LB LC LI LK LR LS LT LU LV LY MA MC MD ME MF MG MH MK ML MM MN MO MP MQ MR MS MT MU MV MW MX MY MZ NA
		NC NE NF NG NI NL NO NP NR NU NZ OM PA PE PF PG PH PK PL PM PN PR PS PT PW PY QA RE RO RS RU RW SA SB SC SD SE SG SH SI SJ SK
		SL SM SN SO SR SS ST SV SX SY SZ TC TD TF TG TH TJ TK TL TM TN TO TR TT TV TW TZ UA UG UM US UY UZ VA VC VE VG VI VN VU WF WS
		XK YE YT ZA ZM ZW`), map[string]string{
		"UK": "GB", "EN": "GB, US or another", "EL": "GR", "JA": "JP", "KO": "KR", "ZH": "CN", "DA": "DK",
		"CS": "CZ or RS", "SP": "ES",
		"SW": "SE or CH", "EU": "an entry for each country", "SU": "RU or another", "YU": "RS or another", "DD": "DE",
		"FX": "FR",
		"BU": "MM", "ZR": "CD", "TP": "TL", "AN": "CW, SX or BQ", "USA": "US", "CAN": "CA", "GBR": "GB",
	}}

	// currencies has the codes of ISO 4217 for money, with those withdrawn since 2022, which older
	// pages still name.
	currencies = codeList{"a currency code of ISO 4217, three upper-case letters such as CAD", strings.Fields(`AED AFN ALL AMD ANG AOA ARS AUD AWG AZN BAM BBD BDT BGN BHD BIF BMD BND BOB BOV BRL BSD BTN BWP BYN BZD
		CAD CDF CHE CHF CHW CLF CLP CNY COP COU CRC CUC CUP CVE CZK DJF DKK DOP DZD EGP ERN ETB EUR FJD FKP GBP GEL GHS GIP GMD GNF
		GTQ GYD HKD HNL HRK HTG HUF IDR ILS INR IQD IRR ISK JMD JOD JPY KES KGS KHR KMF KPW KRW KWD KYD KZT LAK LBP LKR LRD LSL LYD
		MAD MDL MGA MKD MMK MNT MOP MRU MUR MVR MWK MXN MXV MYR MZN NAD NGN NIO NOK NPR NZD OMR PAB PEN PGK PHP PKR PLN PYG QAR RON
		RSD RUB RWF SAR SBD SCR SDG SEK SGD SHP SLE SLL SOS SRD SSP STN SVC SYP SZL THB TJS TMT TND TOP TRY TTD TWD TZS UAH UGX USD
		USN UYI UYU UYW UZS VED VES VND VUV WST XAF XCD XCG XDR XOF XPF XSU YER ZAR ZMW ZWG ZWL`), map[string]string{
		"CDN": "CAD", "CND": "CAD", "CDA": "CAD", "CA$": "CAD", "C$": "CAD", "US$": "USD", "USS": "USD", "UKP": "GBP",
		"STG": "GBP", "EURO": "EUR",
		"RMB": "CNY", "CNH": "CNY", "YEN": "JPY", "NTD": "TWD", "NIS": "ILS", "AUS": "AUD", "SFR": "CHF", "FRS": "CHF",
		"RUR": "RUB",
		"BYR": "BYN", "TRL": "TRY", "MXP": "MXN", "ROL": "RON", "MRO": "MRU", "STD": "STN", "VEF": "VES", "DEM": "EUR",
		"FRF": "EUR",
		"ITL": "EUR", "ESP": "EUR", "ATS": "EUR", "BEF": "EUR", "NLG": "EUR", "IEP": "EUR", "PTE": "EUR", "FIM": "EUR",
		"GRD": "EUR",
		"$":   "USD, CAD or another", "€": "EUR", "£": "GBP",
	}}
)

// Country records a problem unless value is the code of a country in ISO 3166-1 alpha-2, or XK.
func (p *Problems) Country(field, value string) { p.code(field, value, countries) }

// Currency records a problem unless value is the code of a currency in ISO 4217.
func (p *Problems) Currency(field, value string) { p.code(field, value, currencies) }

func (p *Problems) code(field, value string, list codeList) {
	if slices.Contains(list.codes, value) {
		return
	}
	upper := strings.ToUpper(strings.TrimSpace(value))
	instead := list.meant[upper]
	if slices.Contains(list.codes, upper) {
		instead = upper
	}
	if instead != "" {
		instead = ": write " + instead
	}
	p.Add(field, "must be %s; %q is none%s", list.what, short(value), instead)
}
