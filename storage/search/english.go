package search

import "strings"

// stopWords are the English words that say nothing about the subject of a text.
// They are not indexed.
var stopWords = set(`a about after again all also am an and any are as at be because been before being but by
	can could did do does doing don down each even few for from further get gets getting got go going gonna goes had has have having
	he her here hers herself him himself his hi hey how i if in into is isn it its itself just know let like ll
	me more most my myself no nor not now of off oh ok okay on once only or other our ours out over own please
	re really s said same say she should so some such than thank thanks that the their theirs them themselves then there these
	they this those through to too under until up us ve very was we well were what when where which while who whom whose why
	will with would wow yes yeah you your yours yourself hasn haven didn doesn wasn weren won wouldn couldn shouldn aren ain m t d`)

// questionWords are the words that say what kind of answer a question wants,
// but nothing about where it is. They are dropped from queries.
var questionWords = set(`ask asked tell told happen happened happens many much kind kinds type types sort
	does might may likely considered consider ever currently usually often
	long ago recently specific particular describe mention mentioned
	thing things way ways something anything someone anyone`)

func set(text string) map[string]bool {
	s := make(map[string]bool)
	for w := range strings.FieldsSeq(text) {
		s[w] = true
	}
	return s
}

// irregular maps irregular forms of English verbs and nouns, which stemmers do
// not unify, to their base: a question says "did she buy", the answer "I
// bought".
var irregular = func() map[string]string {
	m := make(map[string]string)
	for line := range strings.FieldsSeq(`
		arise,arose,arisen awake,awoke,awoken beat,beaten become,became begin,began,begun bend,bent bind,bound
		bite,bit,bitten bleed,bled blow,blew,blown break,broke,broken bring,brought build,built buy,bought
		catch,caught choose,chose,chosen come,came deal,dealt dig,dug draw,drew,drawn dream,dreamt drink,drank,drunk
		drive,drove,driven eat,ate,eaten fall,fell,fallen feed,fed feel,felt fight,fought find,found flee,fled fly,flew,flown
		forbid,forbade,forbidden forget,forgot,forgotten forgive,forgave,forgiven freeze,froze,frozen give,gave,given
		go,went,gone grow,grew,grown hang,hung hear,heard hide,hid,hidden hold,held keep,kept kneel,knelt
		know,knew,known lay,laid lead,led lean,leant learn,learnt leave,left lend,lent light,lit lose,lost make,made mean,meant
		meet,met pay,paid ride,rode,ridden ring,rang,rung rise,rose,risen run,ran see,saw,seen seek,sought sell,sold
		send,sent sew,sewn shake,shook,shaken shine,shone shoot,shot show,shown shrink,shrank,shrunk sing,sang,sung
		sink,sank,sunk sit,sat sleep,slept slide,slid speak,spoke,spoken spend,spent spin,spun spring,sprang,sprung
		stand,stood steal,stole,stolen stick,stuck sting,stung strike,struck strive,strove swear,swore,sworn sweep,swept
		swim,swam,swum swing,swung take,took,taken teach,taught tear,tore,torn tell,told think,thought throw,threw,thrown
		understand,understood undertake,undertook wake,woke,woken wear,wore,worn weave,wove,woven weep,wept win,won
		wind,wound write,wrote,written
		man,men woman,women child,children,kid,kids person,people foot,feet tooth,teeth mouse,mice goose,geese
		life,lives wife,wives knife,knives leaf,leaves half,halves shelf,shelves wolf,wolves
		mother,mom,mum,mommy,mama father,dad,daddy,papa grandmother,grandma,granny grandfather,grandpa
		photo,photograph,photos,pic,pics,picture,pictures bicycle,bike,bikes television,tv refrigerator,fridge telephone,phone,phones`) {
		base, rest, _ := strings.Cut(line, ",")
		for form := range strings.SplitSeq(rest, ",") {
			m[form] = base
		}
	}
	return m
}()
