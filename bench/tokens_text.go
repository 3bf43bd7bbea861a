package bench

import (
	"embed"
	"math/rand/v2"
	"slices"
	"strings"
)

// sources are this package's own, as a text that is code.
//
//go:embed *.go
var sources embed.FS

// tokensText is a text of which tokens are counted.
type tokensText struct{ kind, text string }

// tokensTexts returns the texts of [Tokens], of so many bytes each. They are the
// same in every run.
func tokensTexts(size int) []tokensText {
	rng := rand.New(rand.NewPCG(4, 4))
	english := sentences(rng, size, englishWords)
	cjk := sentences(rng, size, chineseWords, japaneseWords, koreanWords)
	code := ownSources(size)
	lines := [][]string{
		slices.Collect(strings.Lines(english)), slices.Collect(strings.Lines(code)), slices.Collect(strings.Lines(cjk)),
	}
	var mixed strings.Builder
	for i := 0; mixed.Len() < size; i++ {
		of := lines[i%len(lines)]
		mixed.WriteString(of[i/len(lines)%len(of)])
	}
	return []tokensText{
		{"english", english},
		{"code", code},
		{"cjk", cjk},
		{"mixed", strings.ToValidUTF8(mixed.String()[:size], "")},
		{"letter", strings.Repeat("a", size)},
	}
}

// ownSources returns the sources, over and over.
func ownSources(size int) string {
	entries, err := sources.ReadDir(".")
	if err != nil {
		panic(err) // they are compiled in
	}
	var all strings.Builder
	for all.Len() < size {
		for _, e := range entries {
			text, err := sources.ReadFile(e.Name())
			if err != nil {
				panic(err)
			}
			all.Write(text)
		}
	}
	return strings.ToValidUTF8(all.String()[:size], "")
}

// grammar makes sentences: one phrase of each list in turn, and sometimes a
// second sentence's worth behind a comma.
type grammar struct {
	phrases     [][]string
	comma, stop string
}

// sentences returns lines of one to four sentences, each by one of the grammars.
func sentences(rng *rand.Rand, size int, grammars ...grammar) string {
	var all strings.Builder
	for all.Len() < size {
		g := grammars[rng.IntN(len(grammars))]
		for i, n := 0, 1+rng.IntN(4); i < n; i++ {
			for clauses := 1 + rng.IntN(2); clauses > 0; clauses-- {
				for _, list := range g.phrases {
					all.WriteString(list[rng.IntN(len(list))])
				}
				if clauses > 1 {
					all.WriteString(g.comma)
				}
			}
			all.WriteString(g.stop)
		}
		all.WriteByte('\n')
	}
	return strings.ToValidUTF8(all.String()[:size], "")
}

// phrases divides a list at bars.
func phrases(list string) []string { return strings.Split(list, "|") }

var (
	englishWords = grammar{comma: ", and", stop: ".", phrases: [][]string{
		phrases(" She| He| They| We| The customer| My sister| Nobody on the team| The new engineer| Our landlord| Caroline| The committee| " +
			"I think Melanie| The support agent| Everyone at the clinic| The restaurant's owner| An old friend from Lisbon| The replica| The nightly job"),
		phrases(" hadn't| had| couldn't have| will have| didn't realise she'd| has finally| almost| never| apparently| still hasn't| might have| quietly"),
		phrases(" moved| cancelled| remembered| photographed| rewritten| postponed| finished| forgotten| described| booked| reindexed| repaired| " +
			"recommended| misunderstood| refactored| apologised for| looked forward to| argued about| volunteered for| thrown away"),
		phrases(" the| a| that| another| this year's| her grandmother's| an unexpectedly expensive| the second| some| every| a slightly older| the company's"),
		phrases(" painting| adoption agency| deployment| violin lesson| camping trip| invoice| pottery workshop| database migration| counselling session| " +
			"birthday cake| apartment| marathon| recipe for lasagne| charity race| mailing list| flight| certificate| garden fence| spreadsheet| conversation"),
		phrases(" on Thursday| last weekend| before the kids woke up| at 10:30 (CET)| in Copenhagen| because of the rain| for $1,249.99| two days later| " +
			"without telling anyone| near the lake| during the conference| as soon as the index was rebuilt| by e-mail| after 37 attempts| since 2019|"),
	}}
	chineseWords = grammar{comma: "，", stop: "。", phrases: [][]string{
		phrases("我们公司|新来的同事|她的妹妹|数据库管理员|这家餐厅的老板|张老师|委员会|那位客户|我在上海的朋友|所有的学生|隔壁的邻居|项目负责人"),
		phrases("昨天下午|上个星期四|去年夏天|会议开始之前|最近|突然|终于|已经|从来没有|每天早上|两个小时以后|因为下雨"),
		phrases("取消了|重新构建了|介绍了|忘记了|讨论过|修好了|预订了|参加了|解释了|错过了|拍摄了|推迟了"),
		phrases("查询的索引|钢琴课|一份报告|去北京的航班|生日蛋糕|租房合同|马拉松比赛|新的项目计划|祖母的照片|数据迁移|一场重要的考试|电子邮件"),
	}}
	japaneseWords = grammar{comma: "、", stop: "。", phrases: [][]string{
		phrases("私の妹は|新しい担当者は|田中さんは|近所のカフェの店長が|会社の同僚が|子どもたちは|委員会は|お客様は|大家さんが|エンジニアの友人は"),
		phrases("昨日の午後|先週の木曜日に|去年の夏|会議の前に|とつぜん|ようやく|もう|毎朝|二時間後に|雨のせいで|駅前で|オンラインで"),
		phrases("データベースの移行を|ピアノのレッスンを|京都への旅行を|誕生日のケーキを|新しい計画を|古い写真を|マラソン大会を|契約書を|インデックスを|夕食の予約を"),
		phrases("キャンセルしました|忘れていました|説明してくれました|楽しみにしています|やり直しました|紹介しました|延期したそうです|終わらせました|手伝ってくれた|まだ見ていません"),
	}}
	koreanWords = grammar{comma: ", ", stop: ". ", phrases: [][]string{
		phrases("우리 회사는 |새로 온 동료가 |내 여동생은 |김 선생님은 |식당 주인이 |위원회는 |모든 학생들이 |옆집 이웃은 |그 고객은 |담당 엔지니어가 "),
		phrases("어제 오후에 |지난주 목요일에 |작년 여름에 |회의 전에 |갑자기 |드디어 |이미 |매일 아침 |두 시간 뒤에 |비 때문에 "),
		phrases("데이터베이스 이전을 |피아노 수업을 |제주도 여행을 |생일 케이크를 |새로운 계획을 |오래된 사진을 |마라톤 대회를 |계약서를 |색인을 |저녁 예약을 "),
		phrases("취소했습니다|잊어버렸다|설명해 주었습니다|기대하고 있어요|다시 만들었습니다|소개했다|미루었다고 합니다|끝냈습니다|도와주었다|아직 보지 못했어요"),
	}}
)
