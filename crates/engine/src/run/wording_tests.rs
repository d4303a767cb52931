use pretty_assertions::assert_eq;
use threadline_contract::AccountId;

use super::for_account;

#[test]
fn only_the_operator_reads_where_things_are_and_what_an_agent_wrote_to_its_standard_error() {
    let said = "The agent /opt/a is gone: it ended with status 3. Its last words: no /etc/key, password=hunter22";
    let told = ["local", "other"].map(|account| {
        let account = AccountId::new(account).unwrap();
        for_account(&account, said)
    });
    assert_eq!(
        told,
        [
            "The agent /opt/a is gone: it ended with status 3. Its last words: no /etc/key, password=…",
            "The agent … is gone: it ended with status 3.",
        ]
    );
}
