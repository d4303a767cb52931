//! One door for the local API: a method's name and parameters in, its result out.

use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;
use threadline_contract::{Code, Fault};

use crate::{
    App,
    api::{self, CancelParams, ListParams, NoParams, ThreadParams},
    fault::internal,
};

impl App {
    /// Answers one request of the local API (`POST /app/rpc`). What was begun is done to its end, also
    /// when the caller goes away meanwhile.
    pub async fn dispatch(&self, method: &str, params: Value) -> Result<Value, Fault> {
        let (app, method) = (self.clone(), method.to_owned());
        let doing = async move { app.perform(&method, params).await };
        tokio::spawn(doing).await.map_err(internal)?
    }

    async fn perform(&self, method: &str, params: Value) -> Result<Value, Fault> {
        let thread = |params| read::<ThreadParams>(params).map(|p| p.thread);
        match method {
            api::SEND => result(self.send(read(params)?).await),
            api::RETRY => result(self.retry(read(params)?).await),
            api::LIST => result(self.list(&read::<ListParams>(params)?).await),
            api::SHOW => result(self.show(&thread(params)?).await),
            api::TURN => result(self.turn(&read(params)?).await),
            api::CANCEL => {
                let CancelParams { thread, request_id } = read(params)?;
                result(match request_id {
                    Some(request) => self.cancel_turn(&thread, &request).await,
                    None => self.cancel(&thread).await,
                })
            }
            api::QUEUE_LIST => result(self.queue_list(read(params)?).await),
            api::QUEUE_DROP => result(self.queue_drop(read(params)?).await),
            api::QUEUE_EDIT => result(self.queue_edit(read(params)?).await),
            api::SYNC => result(self.sync(&thread(params)?).await),
            api::ARCHIVE => result(self.archive(&thread(params)?).await),
            api::RESTORE => result(self.restore(&thread(params)?).await),
            api::DELETE => result(self.delete(read(params)?).await),
            api::DELETE_PREVIEW => result(self.delete_preview(&thread(params)?).await),
            api::HOME => {
                read::<NoParams>(params)?;
                result(self.home().await)
            }
            api::RUNTIMES => {
                read::<NoParams>(params)?;
                result(self.runtimes().await)
            }
            api::PROBLEMS => {
                read::<NoParams>(params)?;
                result(Ok(self.problems()))
            }
            other => Err(Fault::new(
                Code::MethodNotFound,
                format!(
                    "There is no method `{other}`. There are: {}.",
                    api::ALL.join(", ")
                ),
            )),
        }
    }
}

fn read<T: DeserializeOwned>(params: Value) -> Result<T, Fault> {
    serde_json::from_value(params)
        .map_err(|e| Fault::invalid(format!("The parameters are wrong: {e}.")))
}

fn result<T: Serialize>(done: Result<T, Fault>) -> Result<Value, Fault> {
    serde_json::to_value(done?).map_err(internal)
}
