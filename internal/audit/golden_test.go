package audit_test

// Made by another program than this package, from what its comments say.
const (
	goldenGenesis    = "9c000f89d082b989f4cc6f6f60fa47bab99ff10dfc7e79d6ee968a57471256f7"
	goldenFull       = "b6f6085911260e2f7d2398f98333d10c8fdedef3b467d48f769c40016d966e45"
	goldenEmpty      = "417be9a128fdb51ea6ae715d4402bd3950384705b72e7fc402d0c781b66eaa62"
	goldenNoScope    = "960b46f32f071dc23bfa7fd87fd0edceb80683c73e8746c84aeadfe5a7ea1cad"
	goldenEmptyScope = "9ee417dd430914c0c8ce4df6e2dff5b870dea7e9ebe17b7ca1f2eba2eda15091"
	goldenSecond     = "7bcc6d3d3009fe21bf679cd50c42009978ca8b3069476f144ca93e66e3201a02"
	goldenSignature  = "fe812c12f3ab4ce6 " +
		"6661758aceb8a40eaa477a9bd12e1d025710d63d36c8e059cbef3cf1b2b620883f0c350ff066742153dc5714e3af730638adb3c66399fe007f43baba7455a00b"
)
